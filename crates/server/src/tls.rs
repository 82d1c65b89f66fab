//! TLS: reading a certificate and its key, and a listener whose handshakes keep nobody waiting.

use axum::serve::Listener;
use punctual_core::invalid::Invalid;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, InconsistentKeys, ServerConfig};
use tokio_rustls::server::TlsStream;

/// How long a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How many clients may be at it at once; who comes later waits to be accepted.
const HANDSHAKES_MAX: usize = 256;

/// How long the listener rests when the system has no room for another connection.
const OUT_OF_ROOM: Duration = Duration::from_secs(1);

/// Reads a certificate with those it was issued by, and its key, both in PEM form.
pub fn load_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Invalid> {
    let certificates = read_certificates(certificate)?;
    let key_read = read_key(key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| unusable(certificate, &error))?;
    let built = builder.with_no_client_auth().with_single_cert(certificates, key_read);
    let mut config = built.map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            let told = format!("{} is not the key of the certificate in {}", key.display(), certificate.display());
            Invalid::new("tls_key", told).remedy("name the key that the certificate was requested with")
        }
        error => unusable(certificate, &error),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn unusable(certificate: &Path, error: &Error) -> Invalid {
    Invalid::new("tls_cert", format!("{} cannot be used: {error}", certificate.display()))
        .remedy("name a file with the server's certificate first, and those it was issued by after it, in PEM form")
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let refused = |error: pem::Error| unreadable("tls_cert", path, &error, "the server's certificate");
    let read: Vec<_> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(refused)?;
    if read.is_empty() {
        return Err(refused(pem::Error::NoItemsFound));
    }
    Ok(read)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Invalid> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| unreadable("tls_key", path, &error, "the certificate's private key, not encrypted"))
}

fn unreadable(field: &str, path: &Path, error: &pem::Error, wanted: &str) -> Invalid {
    let path = path.display();
    let told = match error {
        pem::Error::NoItemsFound => format!("{path} holds nothing of the kind"),
        pem::Error::Io(error) => format!("{path} cannot be read: {error}"),
        error => format!("{path} is not PEM: {error}"),
    };
    Invalid::new(field, told).remedy(format!("name a file with {wanted}, in PEM form, that this user may read"))
}

/// A connection whose handshake is done.
type Ready = (TlsStream<TcpStream>, SocketAddr);

/// Accepts connections and lets each do its handshake by itself: one that is slow or says nothing delays nobody.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    patience: Duration,
    /// Handshakes under way; they end with the listener.
    shaking: JoinSet<Option<Ready>>,
}

impl TlsListener {
    pub(crate) fn new(listener: TcpListener, config: Arc<ServerConfig>) -> Self {
        Self::with_patience(listener, config, HANDSHAKE)
    }

    fn with_patience(listener: TcpListener, config: Arc<ServerConfig>, patience: Duration) -> Self {
        Self { listener, acceptor: config.into(), patience, shaking: JoinSet::new() }
    }

    async fn begin(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, from)) => {
                self.shaking.spawn(shake_hands(stream, from, self.acceptor.clone(), self.patience));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted just now");
                tokio::time::sleep(OUT_OF_ROOM).await;
            }
        }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Ready {
        loop {
            let room = self.shaking.len() < HANDSHAKES_MAX;
            tokio::select! {
                accepted = self.listener.accept(), if room => self.begin(accepted).await,
                Some(shaken) = self.shaking.join_next() => {
                    if let Ok(Some(ready)) = shaken {
                        return ready;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn shake_hands(stream: TcpStream, from: SocketAddr, acceptor: TlsAcceptor, patience: Duration) -> Option<Ready> {
    // Without it answers are only slower.
    let _slower = stream.set_nodelay(true);
    match tokio::time::timeout(patience, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some((stream, from)),
        Ok(Err(error)) => tracing::debug!(%from, %error, "a TLS handshake failed"),
        Err(_) => tracing::debug!(%from, "a TLS handshake took too long"),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{CertificateParams, KeyPair};
    use std::path::PathBuf;
    use tokio::io::AsyncReadExt;

    fn pem(kind: &str, der: &[u8]) -> String {
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der))
    }

    /// A certificate for localhost and its key, as PEM.
    fn certificate() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", key.serialized_der()))
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn c12_a_certificate_that_cannot_be_used_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let ((ours, our_key), (_, other_key)) = (certificate(), certificate());
        let certificate = write(&folder, "cert.pem", &ours);
        let key = write(&folder, "key.pem", &our_key);
        let other = write(&folder, "other.pem", &other_key);
        let empty = write(&folder, "empty.pem", "");
        let damaged = write(&folder, "damaged.pem", &pem("CERTIFICATE", b"no certificate"));
        let torn = write(&folder, "torn.pem", "-----BEGIN CERTIFICATE-----\nAAAA");
        let encrypted = write(&folder, "encrypted.pem", &pem("ENCRYPTED PRIVATE KEY", b"secret"));
        let missing = folder.path().join("missing.pem");
        assert!(load_tls(&certificate, &key).is_ok());
        for (certificate, key, field, told) in [
            (&missing, &key, "tls_cert", "cannot be read"),
            (&empty, &key, "tls_cert", "holds nothing"),
            (&key, &key, "tls_cert", "holds nothing"),
            (&torn, &key, "tls_cert", "is not PEM"),
            (&damaged, &key, "tls_cert", "cannot be used"),
            (&certificate, &missing, "tls_key", "cannot be read"),
            (&certificate, &empty, "tls_key", "holds nothing"),
            (&certificate, &encrypted, "tls_key", "holds nothing"),
            (&certificate, &other, "tls_key", "is not the key of"),
        ] {
            let refused = load_tls(certificate, key).unwrap_err();
            assert_eq!(refused.field, field, "{refused:?}");
            assert!(refused.problem.contains(told) && refused.remedy.is_some(), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn c12_who_says_nothing_is_hung_up_on() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = certificate();
        let tls = load_tls(&write(&folder, "cert.pem", &certificate), &write(&folder, "key.pem", &key)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut listener = TlsListener::with_patience(listener, tls, Duration::from_millis(50));
        let mut silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut byte = [0];
        tokio::select! {
            _ = listener.accept() => panic!("it has not shaken hands"),
            read = silent.read(&mut byte) => assert_eq!(read.unwrap(), 0, "the server closes the connection"),
        }
    }
}
