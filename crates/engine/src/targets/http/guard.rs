//! Where HTTP jobs may connect to: a pure judgement over addresses and ports, with the node's explicit exceptions.
//!
//! Only addresses that are public on the Internet may be called. Everything else is somebody's inside: this machine,
//! its network, the metadata service of a cloud. What is not known to be public is refused.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

/// Ports that may be called without being named in an exception.
const USUAL_PORTS: [u16; 4] = [80, 443, 8080, 8443];

/// Blocks of IPv4 that are not public.
const FORBIDDEN_V4: [(Ipv4Addr, u8, &str); 16] = [
    (Ipv4Addr::UNSPECIFIED, 8, "unspecified"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared by a provider's customers"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link-local"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "for documentation"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "reserved"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "a 6to4 relay"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "for benchmarks"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "for documentation"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "for documentation"),
    (Ipv4Addr::new(224, 0, 0, 0), 4, "multicast"),
    (Ipv4Addr::new(240, 0, 0, 0), 4, "reserved"),
];

/// Blocks of IPv6 that are not public, the narrow ones first. Some carry an IPv4 address inside, which a gateway
/// would unpack behind our back; none of them is followed.
const FORBIDDEN_V6: [(Ipv6Addr, u8, &str); 16] = [
    (Ipv6Addr::UNSPECIFIED, 128, "unspecified"),
    (Ipv6Addr::LOCALHOST, 128, "loopback"),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "an IPv4-mapped address"),
    (Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, 0, 0), 96, "an IPv4-translated address"),
    (Ipv6Addr::UNSPECIFIED, 96, "an IPv4-compatible address"),
    (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, "a NAT64 address"),
    (Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 48, "a local NAT64 address"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, "a Teredo address"),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "reserved"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "for documentation"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "a 6to4 address"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "for documentation"),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, "private"),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10, "link-local"),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, "site-local"),
    (Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8, "multicast"),
];

/// Why an address is not public; `None` when it is.
///
/// ```
/// use punctual_engine::targets::http::guard::why_not_public;
/// assert_eq!(why_not_public("169.254.169.254".parse().unwrap()), Some("link-local"));
/// assert_eq!(why_not_public("93.184.215.14".parse().unwrap()), None);
/// ```
pub fn why_not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(_) => {
            FORBIDDEN_V4.iter().find(|(net, bits, _)| within(address, (*net).into(), *bits)).map(|(.., why)| *why)
        }
        IpAddr::V6(v6) => {
            let known = FORBIDDEN_V6.iter().find(|(net, bits, _)| within(address, (*net).into(), *bits));
            // Only 2000::/3 has been given out; what lies outside is nobody's.
            let given_out = v6.segments()[0] >> 13 == 1;
            known.map(|(.., why)| *why).or((!given_out).then_some("reserved"))
        }
    }
}

/// Whether an address begins with the first bits of a net. The two families never meet.
fn within(address: IpAddr, net: IpAddr, bits: u8) -> bool {
    let (address, net, all) = match (address, net) {
        (IpAddr::V4(a), IpAddr::V4(n)) => (u128::from(a.to_bits()), u128::from(n.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(n)) => (a.to_bits(), n.to_bits(), 128),
        _ => return false,
    };
    (address ^ net).checked_shr(all - u32::from(bits)).unwrap_or(0) == 0
}

/// An exception of the node's options: a host or a net, and one port of it or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    place: Place,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Host(String),
    Net(IpAddr, u8),
}

/// Text that is no exception.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no host, address or net; write example.com, 10.1.2.3, 10.0.0.0/8, [fd00::1]:8080 or host:8080")]
pub struct NotAllowed(String);

impl FromStr for Allowed {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        let refused = || NotAllowed(text.chars().take(80).collect());
        if let Ok(net) = text.parse::<SocketAddr>() {
            let bits = if net.is_ipv4() { 32 } else { 128 };
            return Ok(Self { place: Place::Net(net.ip(), bits), port: Some(net.port()) });
        }
        let (place, port) = match text.rsplit_once(':') {
            Some((place, port)) if !place.contains(':') => (place, Some(port.parse().map_err(|_| refused())?)),
            _ => (text, None),
        };
        let bare = place.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(place);
        let (address, bits) = bare.split_once('/').map_or((bare, None), |(address, bits)| (address, Some(bits)));
        if let Ok(address) = address.parse::<IpAddr>() {
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(most), str::parse).map_err(|_| refused())?;
            return if bits <= most { Ok(Self { place: Place::Net(address, bits), port }) } else { Err(refused()) };
        }
        let host = plain_host(place);
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if host.is_empty() || !host.chars().all(letters) || host.starts_with('.') {
            return Err(refused());
        }
        Ok(Self { place: Place::Host(host), port })
    }
}

/// A host's name without what makes no difference: case, and the dot that stands for the root.
pub(super) fn plain_host(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

impl Allowed {
    fn covers(&self, host: &str, address: IpAddr, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
            && match &self.place {
                Place::Host(name) => *name == plain_host(host),
                Place::Net(net, bits) => within(address, *net, *bits),
            }
    }
}

/// Why a call was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub(super) String);

/// The rules of one node.
#[derive(Debug, Clone)]
pub struct Guard {
    allowed: Vec<Allowed>,
    ports: BTreeSet<u16>,
    own: Vec<SocketAddr>,
}

impl Default for Guard {
    fn default() -> Self {
        Self { allowed: Vec::new(), ports: BTreeSet::from(USUAL_PORTS), own: Vec::new() }
    }
}

impl Guard {
    /// Public addresses and the usual ports, and these exceptions.
    pub fn allowing(allowed: Vec<Allowed>) -> Self {
        Self { allowed, ..Self::default() }
    }

    /// These ports instead of the usual ones.
    #[must_use]
    pub fn with_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// These ports as well.
    #[must_use]
    pub fn with_more_ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports.extend(ports);
        self
    }

    /// Where this process itself listens: no job may call it, whatever is allowed.
    #[must_use]
    pub fn with_own(mut self, own: Vec<SocketAddr>) -> Self {
        self.own = own;
        self
    }

    /// Judges one address of a host. Every address that a name leads to must pass.
    pub fn check(&self, host: &str, address: IpAddr, port: u16) -> Result<(), Refused> {
        if self.own.iter().any(|own| own.port() == port && is_at(own.ip(), address)) {
            return Err(Refused(format!("{host} leads to {address}, port {port}: this process itself")));
        }
        if self.allowed.iter().any(|allowed| allowed.covers(host, address, port)) {
            return Ok(());
        }
        if let Some(why) = why_not_public(address) {
            return Err(Refused(format!(
                "{host} leads to {address}, which is {why}; a node may be told to allow it with --http-allow"
            )));
        }
        if !self.ports.contains(&port) {
            return Err(Refused(format!(
                "port {port} of {host} is not one that may be called; a node may be told to allow it with \
                 --http-allow {host}:{port}"
            )));
        }
        Ok(())
    }
}

/// Whether somebody who listens on one address is reached by another. Who listens on all is reached by every address
/// of this machine, and an address is one of this machine's exactly when something can be bound to it.
fn is_at(listening: IpAddr, called: IpAddr) -> bool {
    listening == called || (listening.is_unspecified() && UdpSocket::bind((called, 0)).is_ok())
}
