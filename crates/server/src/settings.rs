//! How a server is set up, and which addresses it refuses to listen on.

use crate::execution::ServiceAccess;
use jiff::SignedDuration;
use punctual_core::invalid::Invalid;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Host names, beside those of this machine itself, under which it may be called. Any other is refused, so that a
    /// web page whose name leads here cannot speak to it.
    pub hosts: Vec<String>,
    /// Whether browsers reach it by https, directly or through a proxy: the cookie is sent on such connections only.
    pub https: bool,
    /// The largest body of a request, in bytes.
    pub body_max: usize,
    /// The most requests of one token in a second.
    pub token_rate: NonZeroU32,
    /// The most requests without a valid token of one address in a second.
    pub stranger_rate: NonZeroU32,
    /// The token that `/metrics` asks for; without one, an admin's token does.
    pub metrics_token: Option<String>,
    /// How long a browser stays logged in.
    pub session_for: SignedDuration,
    /// Which services may call `/api/internal`.
    pub service_access: ServiceAccess,
    /// The most requests of one service's secret or token in a second.
    pub service_rate: NonZeroU32,
    /// How long the driver of a graph run may be silent before somebody who waits takes over.
    pub execution_lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        const TOKEN_RATE: NonZeroU32 = NonZeroU32::new(5_000).unwrap();
        const SERVICE_RATE: NonZeroU32 = NonZeroU32::new(100).unwrap();
        const STRANGER_RATE: NonZeroU32 = NonZeroU32::new(50).unwrap();
        Self {
            hosts: Vec::new(),
            https: false,
            body_max: 4 * 1024 * 1024,
            token_rate: TOKEN_RATE,
            stranger_rate: STRANGER_RATE,
            metrics_token: None,
            session_for: SignedDuration::from_hours(12),
            service_access: ServiceAccess::default(),
            service_rate: SERVICE_RATE,
            execution_lease: Duration::from_secs(15),
        }
    }
}

/// What makes a public address acceptable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublicBind {
    /// The server speaks TLS itself.
    Tls,
    /// Somebody said in so many words that plain HTTP is fine, because a proxy stands in front.
    Allowed,
    /// Neither.
    Refused,
}

/// Refuses to listen where others on the network could read along.
///
/// ```
/// use punctual_server::{PublicBind, check_bind};
/// assert!(check_bind("127.0.0.1:7878".parse().unwrap(), PublicBind::Refused).is_ok());
/// assert!(check_bind("0.0.0.0:7878".parse().unwrap(), PublicBind::Refused).is_err());
/// ```
pub fn check_bind(address: SocketAddr, public: PublicBind) -> Result<(), Invalid> {
    if address.ip().to_canonical().is_loopback() || public != PublicBind::Refused {
        return Ok(());
    }
    Err(Invalid::new("listen", format!("{address} can be reached by others, who could read tokens on the way"))
        .remedy("listen on 127.0.0.1, set up TLS, or say --allow-plain-http when a proxy with TLS stands in front"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_a_public_address_needs_tls_or_a_word() {
        for (address, refused) in [
            ("127.0.0.1:1", false),
            ("127.8.9.1:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("192.168.1.7:1", true),
            ("8.8.8.8:1", true),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            let checked = check_bind(address, PublicBind::Refused);
            assert_eq!(checked.is_err(), refused, "{address}");
            if let Err(refusal) = checked {
                assert!(refusal.remedy.unwrap().contains("--allow-plain-http"));
            }
            assert!(check_bind(address, PublicBind::Tls).is_ok());
            assert!(check_bind(address, PublicBind::Allowed).is_ok());
        }
    }
}
