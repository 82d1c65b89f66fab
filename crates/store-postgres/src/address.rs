//! The address of a database: what the driver understands, and the parts of it that it does not.

use crate::tls::Trust;
use punctual_core::invalid::Invalid;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An address, understood.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) config: Config,
    pub(crate) trust: Trust,
    pub(crate) root_cert: Option<PathBuf>,
}

impl Address {
    /// Reads `postgres://user:password@host,host/database?sslmode=verify-full&target_session_attrs=read-write`.
    pub(crate) fn parse(url: &str) -> Result<Self, Invalid> {
        let refused = |problem: String| {
            Invalid::new("database", problem).remedy("use postgres://user:password@host:5432/database")
        };
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(refused("is not a postgres:// address".to_owned()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut trust, mut root_cert, mut kept) = (Trust::Anyone, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", "verify-ca")) => trust = Trust::Authority,
                Some(("sslmode", "verify-full")) => trust = Trust::Host,
                Some(("sslrootcert", "system")) => {}
                Some(("sslrootcert", path)) => root_cert = Some(PathBuf::from(unescaped(path))),
                _ => kept.push(pair),
            }
        }
        let rest = if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) };
        // The driver's words repeat nothing of the address, which may hold a password.
        let mut config: Config =
            rest.parse().map_err(|error| refused(crate::error::with_causes(&error as &tokio_postgres::Error)))?;
        if trust > Trust::Anyone {
            config.ssl_mode(SslMode::Require);
        } else if root_cert.is_some() && config.get_ssl_mode() == SslMode::Require {
            // As everywhere else: who names an authority wants it to be looked at.
            trust = Trust::Authority;
        }
        if config.get_application_name().is_none() {
            config.application_name("punctual");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self { config, trust, root_cert })
    }
}

/// Takes `%2F` and its like out of a value.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_postgres::config::{Host, TargetSessionAttrs};

    #[test]
    fn a24_several_hosts_and_the_kind_of_session_are_understood() {
        let address = Address::parse("postgres://u@a:1,b:2/db?target_session_attrs=read-write").unwrap();
        assert_eq!(address.config.get_hosts(), [Host::Tcp("a".into()), Host::Tcp("b".into())]);
        assert_eq!(address.config.get_ports(), [1, 2]);
        assert_eq!(address.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn a24_sslmode_means_what_it_means_everywhere() {
        let trust = |query: &str| {
            let address = Address::parse(&format!("postgres://h/db?{query}")).unwrap();
            (address.trust, address.config.get_ssl_mode())
        };
        assert_eq!(trust(""), (Trust::Anyone, SslMode::Prefer));
        assert_eq!(trust("sslmode=disable"), (Trust::Anyone, SslMode::Disable));
        assert_eq!(trust("sslmode=require"), (Trust::Anyone, SslMode::Require));
        assert_eq!(trust("sslmode=require&sslrootcert=%2Fca.pem"), (Trust::Authority, SslMode::Require));
        assert_eq!(trust("sslmode=verify-ca"), (Trust::Authority, SslMode::Require));
        assert_eq!(trust("sslmode=verify-full&sslrootcert=system"), (Trust::Host, SslMode::Require));
    }

    #[test]
    fn a24_what_is_no_address_is_refused_without_its_password() {
        for url in ["", "sqlite:app.db", "postgres://u:secret@h/db?sslmode=sometimes", "postgres://u:secret@h:x/db"] {
            let refused = Address::parse(url).unwrap_err();
            assert_eq!(refused.field, "database");
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
    }
}
