//! The server over TLS, with a real client on the other side.

use crate::world::run;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_server::{AppState, Settings, first_admin_token, load_tls, serve_tls};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use rcgen::{CertificateParams, KeyPair};
use std::net::SocketAddr;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A certificate for localhost, in PEM files with its key.
fn certificate(folder: &TempDir) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    for (name, kind, der) in
        [("cert", "CERTIFICATE", certificate.as_ref()), ("key", "PRIVATE KEY", key.serialized_der())]
    {
        let pem = format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
        std::fs::write(folder.path().join(name), pem).unwrap();
    }
    certificate
}

/// A client that trusts one certificate and no other.
fn client(trusted: CertificateDer<'static>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth()).into()
}

async fn ask(client: &TlsConnector, address: SocketAddr, path: &str, token: &str) -> String {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = client.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn c12_the_api_is_served_over_tls_and_nobody_waits_for_a_slow_handshake() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let trusted = certificate(&folder);
        let store = SqliteStore::open(&folder.path().join("tls.db"), SqliteOptions::default()).unwrap();
        let token = first_admin_token(&store).await.unwrap().unwrap();
        let tls = load_tls(&folder.path().join("cert"), &folder.path().join("key")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = AppState::new(Arc::new(store), Settings { https: true, ..Settings::default() });
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve_tls(listener, tls, state, async { stopped.await.unwrap_or(()) }));

        let mut silent = TcpStream::connect(address).await.unwrap();
        let client = client(trusted);
        let answer = ask(&client, address, "/api/v1/session", token.reveal()).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"owner\":\"admin\""), "{answer}");
        assert!(answer.contains("strict-transport-security:"), "{answer}");
        let refused = ask(&client, address, "/api/v1/session", "punctual_a_b").await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");

        let mut plain = TcpStream::connect(address).await.unwrap();
        plain.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut bytes = Vec::new();
        // An alert, or an abrupt end: anything but an answer.
        let _reset = plain.read_to_end(&mut bytes).await;
        assert!(!bytes.starts_with(b"HTTP"), "plain HTTP is not answered");

        let stranger = TcpStream::connect(address).await.unwrap();
        let other = self::client(certificate(&tempfile::tempdir().unwrap()));
        assert!(other.connect(ServerName::try_from("localhost").unwrap(), stranger).await.is_err());

        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
        assert!(matches!(silent.read(&mut [0; 1]).await, Ok(0) | Err(_)), "and nobody is kept waiting");
    });
}
