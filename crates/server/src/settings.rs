//! How a server is set up, and which addresses and paths it refuses.

use crate::dashboard::{Dashboard, NO_PAGES};
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
    /// Below which path browsers find everything.
    pub base_path: BasePath,
    /// The web pages.
    pub dashboard: Dashboard,
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
            base_path: BasePath::default(),
            dashboard: Dashboard::BUILT,
        }
    }
}

/// The path below which browsers find the server, such as `/punctual`; nothing when it has a host to itself.
///
/// A request is answered with and without it, because some proxies take it away before they pass a request on.
///
/// ```
/// use punctual_server::BasePath;
/// assert_eq!(BasePath::parse("/tools/punctual/").unwrap().as_str(), "/tools/punctual");
/// assert_eq!(BasePath::parse("/").unwrap().as_str(), "");
/// assert!(BasePath::parse("//punctual").is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BasePath(String);

impl BasePath {
    /// Takes a path that begins with a slash; one at its end makes no difference.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refused = |problem: String| {
            Invalid::new("base-path", problem)
                .remedy("write it as /punctual: a slash, and a name of letters, digits, - . _ or ~")
        };
        let path = text.strip_suffix('/').unwrap_or(text);
        let Some(names) = path.strip_prefix('/') else {
            return if path.is_empty() {
                Ok(Self::default())
            } else {
                Err(refused(format!("`{text}` does not begin with a slash")))
            };
        };
        let plain = |name: &str| {
            let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
            !name.is_empty() && letters && !name.bytes().all(|byte| byte == b'.')
        };
        if let Some(name) = names.split('/').find(|name| !plain(name)) {
            return Err(refused(format!("`{text}` has `{name}` between its slashes")));
        }
        if let Some(taken) = names.split('/').next().filter(|first| NO_PAGES.contains(first)) {
            return Err(refused(format!("`/{taken}` is a place of the server itself")));
        }
        Ok(Self(path.to_owned()))
    }

    /// Nothing, or a path that begins with a slash and does not end with one.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The rest of a path that is below this one; the whole when it is not.
    pub(crate) fn strip<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(self.as_str()) {
            Some("") => "/",
            Some(rest) if rest.starts_with('/') => rest,
            _ => path,
        }
    }
}

impl std::fmt::Display for BasePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
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
    fn a_base_path_is_plain_names_between_single_slashes() {
        for (text, path) in [("", ""), ("/", ""), ("/p", "/p"), ("/p/", "/p"), ("/a.b/c_d~e-1", "/a.b/c_d~e-1")] {
            assert_eq!(BasePath::parse(text).unwrap().as_str(), path, "{text}");
        }
        for text in
            ["p", "//", "//p", "/p//", "/a//b", "/..", "/a/./b", "/a b", "/a?b", "/a#b", "/%41", "/api", "/docs/x"]
        {
            let refused = BasePath::parse(text).expect_err(text);
            assert!(refused.remedy.unwrap().contains("/punctual"), "{text}");
        }
    }

    #[test]
    fn a_base_path_is_taken_away_where_it_is() {
        let base = BasePath::parse("/p").unwrap();
        for (path, rest) in [("/p", "/"), ("/p/", "/"), ("/p/x/p", "/x/p"), ("/px", "/px"), ("/x", "/x"), ("/", "/")] {
            assert_eq!(base.strip(path), rest, "{path}");
        }
        assert_eq!(BasePath::default().strip("/x"), "/x");
    }

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
