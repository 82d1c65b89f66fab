//! Servers that misbehave: each ends as a recorded run with the right code, leaves no connection and delays nobody.

use super::server::{Server, answer, hold, write_for_ever};
use super::{Calls, get, job, local_options};
use jiff::SignedDuration;
use punctual_core::job::{JobState, NewJob, Run, Timeout};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::Store;
use punctual_core::target::Http;
use punctual_engine::targets::http::HttpOptions;
use punctual_engine::targets::http::names::Names;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

/// Calls a server that is up to no good, and meanwhile, on the same node, one that is.
async fn poisoned(server: &Server, call: NewJob) -> Run {
    let good = Server::saying(answer(200, "", "fine")).await;
    let calls = Calls::local();
    let poison = calls.enqueue_job(call).await;
    server.arrived.acquire().await.unwrap().forget();
    let neighbour = calls.call(get(good.url("/")), "{}").await;
    assert_eq!(neighbour.outcome, Outcome::Completed, "a neighbour is not delayed");
    let run = calls.end(poison).await;
    server.until_left_alone().await;
    assert!(run.node_id.is_some() && run.started_at.is_some(), "it is a recorded run");
    calls.node.leave().await;
    run
}

fn failed_with(run: &Run, code: ErrorCode, says: &str) {
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(code)), "{run:?}");
    assert!(run.error.as_deref().unwrap().contains(says), "{run:?}");
}

/// A job with little time; the run is over long before the call would be.
fn hurried(http: Http) -> NewJob {
    NewJob { timeout: Timeout::After(SignedDuration::from_millis(700)), ..job(http, "{}") }
}

#[tokio::test]
async fn c13_a_server_that_never_answers() {
    let server = Server::start(|stream, _| hold(stream)).await;
    failed_with(&poisoned(&server, hurried(get(server.url("/")))).await, ErrorCode::Timeout, "longer than its timeout");
    let server = Server::start(|stream, _| hold(stream)).await;
    let own = Http { timeout: Some(SignedDuration::from_millis(300)), ..get(server.url("/")) };
    failed_with(&poisoned(&server, job(own, "{}")).await, ErrorCode::Timeout, "the call took longer");
}

#[tokio::test]
async fn c13_a_server_that_answers_byte_by_byte() {
    for head in ["HTTP/1.1 200 x\r\ncontent-length: 1000000\r\n\r\n", ""] {
        let server = Server::start(move |mut stream, _| async move {
            let mut going = stream.write_all(head.as_bytes()).await;
            for byte in "HTTP/1.1 200 x".bytes().chain(std::iter::repeat(b'x')) {
                if going.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                going = stream.write_all(&[byte]).await;
            }
        })
        .await;
        let run = poisoned(&server, hurried(get(server.url("/")))).await;
        failed_with(&run, ErrorCode::Timeout, "longer than its timeout");
    }
}

#[tokio::test]
async fn c13_a_server_that_redirects_to_loopback() {
    let said = answer(302, "location: http://127.0.0.2:80/\r\n", "");
    let server = Server::saying(said.clone()).await;
    let run = poisoned(&server, job(Http { redirects: 5, ..get(server.url("/")) }, "{}")).await;
    failed_with(&run, ErrorCode::TargetRejected, "loopback");
    let server = Server::saying(said).await;
    failed_with(&poisoned(&server, job(get(server.url("/")), "{}")).await, ErrorCode::TargetError, "not followed");
}

#[tokio::test]
async fn c13_a_server_that_sends_ten_gigabytes() {
    const LENGTH: &str = "content-length: 10737418240\r\n\r\n";
    const CHUNKED: &str = "transfer-encoding: chunked\r\n\r\n";
    let megabyte = [b"100000\r\n" as &[u8], &vec![b'x'; 1 << 20], b"\r\n"].concat();
    for headers in [LENGTH, CHUNKED, "\r\n"] {
        let chunk = megabyte.clone();
        let server = Server::start(move |stream, _| {
            let chunk = chunk.clone();
            async move { write_for_ever(stream, &format!("HTTP/1.1 200 x\r\n{headers}"), &chunk).await }
        })
        .await;
        let run = poisoned(&server, job(get(server.url("/")), "{}")).await;
        failed_with(&run, ErrorCode::OutputTooLarge, "larger than 16777216 bytes");
        assert!(run.output.as_ref().unwrap().as_str().len() < 80_000, "what is kept of it is small");
    }
}

#[tokio::test]
async fn c13_a_server_that_hangs_up() {
    let cases: [(&str, &str); 4] = [
        ("HTTP/1.1 200 x\r\ncontent-length: 100\r\n\r\nhalf", "broke off"),
        ("HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf", "broke off"),
        ("HTTP/1.1 200 x\r\ncontent-le", "the call failed"),
        ("", "the call failed"),
    ];
    for (said, words) in cases {
        let server = Server::saying(said).await;
        failed_with(&poisoned(&server, job(get(server.url("/")), "{}")).await, ErrorCode::TargetError, words);
    }
}

#[tokio::test]
async fn c13_a_server_that_talks_nonsense() {
    for said in
        ["SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1.1 9 x\r\n\r\n", "HTTP/1.1 200 x\r\ncontent-length: many\r\n\r\n"]
    {
        let server = Server::saying(said).await;
        failed_with(&poisoned(&server, job(get(server.url("/")), "{}")).await, ErrorCode::BadOutput, "the call failed");
    }
}

#[tokio::test]
async fn c13_a_server_with_huge_headers() {
    let many = format!("HTTP/1.1 200 x\r\n{}\r\n", "x: y\r\n".repeat(10_000));
    let long = format!("HTTP/1.1 200 x\r\nx: {}\r\n\r\n", "y".repeat(4 << 20));
    for said in [many, long] {
        let server = Server::saying(said).await;
        failed_with(&poisoned(&server, job(get(server.url("/")), "{}")).await, ErrorCode::BadOutput, "the call failed");
    }
    let server = Server::start(|stream, _| write_for_ever(stream, "HTTP/1.1 200 x\r\nx: ", b"yyyyyyyyyyyyyyyy")).await;
    failed_with(&poisoned(&server, job(get(server.url("/")), "{}")).await, ErrorCode::BadOutput, "the call failed");
}

/// Nothing is unpacked, so there is nothing that could grow: what was packed unasked is refused.
#[tokio::test]
async fn c13_a_server_that_sends_a_packed_bomb() {
    let server = Server::start(|stream, seen| async move {
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        // The head of a gzip file, and endless blocks of zeros.
        write_for_ever(stream, "HTTP/1.1 200 x\r\ncontent-encoding: gzip\r\n\r\n\u{1f}", &[0; 4096]).await;
    })
    .await;
    failed_with(&poisoned(&server, job(get(server.url("/")), "{}")).await, ErrorCode::BadOutput, "packed as gzip");
}

#[tokio::test]
async fn c13_nobody_takes_the_connection() {
    // A line for one, and it is taken: the kernel answers nobody else.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _in_line = tokio::net::TcpStream::connect(address).await.unwrap();
    let calls = Calls::local();
    let http = Http { connect_timeout: Some(SignedDuration::from_millis(300)), ..get(format!("http://{address}/")) };
    failed_with(&calls.call(http, "{}").await, ErrorCode::Timeout, "could not be made in time");
    drop(listener);
    let run = calls.call(get(format!("http://{address}/")), "{}").await;
    failed_with(&run, ErrorCode::TargetError, "refused");
    calls.node.leave().await;
}

/// A name server that says nothing.
struct SilentNames;

#[async_trait::async_trait]
impl Names for SilentNames {
    async fn addresses(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn c13_nobody_knows_the_name() {
    let calls = Calls::new(HttpOptions { names: Arc::new(SilentNames), ..local_options() });
    let http = Http { connect_timeout: Some(SignedDuration::from_millis(100)), ..get("http://example.com/") };
    failed_with(&calls.call(http, "{}").await, ErrorCode::Timeout, "nobody knew the addresses of example.com");
    failed_with(&calls.call(get("http://127.0.0.1:1/"), "{}").await, ErrorCode::TargetError, "refused");
    calls.node.leave().await;
    let calls = Calls::local();
    let run = calls.call(get("http://no-such-host.invalid/"), "{}").await;
    failed_with(&run, ErrorCode::TargetError, "the addresses of no-such-host.invalid cannot be found");
    calls.node.leave().await;
}

/// An authority, and a certificate that it gave to a host.
fn certificate(host: &str) -> (CertificateDer<'static>, TlsAcceptor) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let root = authority.self_signed(&authority_key).unwrap().der().clone();
    let issuer = Issuer::new(authority, authority_key);
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key.serialize_der().try_into().unwrap())
        .unwrap();
    (root, TlsAcceptor::from(Arc::new(config)))
}

async fn tls_server(acceptor: TlsAcceptor) -> (std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _gone = stream.write_all(answer(200, "", "private").as_bytes()).await;
                let _gone = stream.shutdown().await;
            }
        }
    });
    (address, task)
}

#[tokio::test]
async fn c13_a_server_with_bad_tls() {
    let (root, acceptor) = certificate("127.0.0.1");
    let (right, task) = tls_server(acceptor).await;
    let (other_root, acceptor) = certificate("somebody.else.test");
    let (other_host, other_task) = tls_server(acceptor).await;
    let trusting = Calls::new(HttpOptions { authorities: vec![root, other_root], ..local_options() });
    let run = trusting.call(get(format!("https://{right}/")), "{}").await;
    assert_eq!(super::output(&run)["body"], "private", "{run:?}");
    let run = trusting.call(get(format!("https://{other_host}/")), "{}").await;
    failed_with(&run, ErrorCode::TargetError, "certificate not valid for name");
    trusting.node.leave().await;
    let careful = Calls::local();
    let run = careful.call(get(format!("https://{right}/")), "{}").await;
    failed_with(&run, ErrorCode::TargetError, "UnknownIssuer");
    careful.node.leave().await;
    task.abort();
    other_task.abort();
}

#[tokio::test]
async fn c13_a_server_that_speaks_no_tls() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 no TLS here\r\n\r\n").await.unwrap();
        hold(stream).await;
    });
    let calls = Calls::local();
    let run = calls.call(get(format!("https://{address}/")), "{}").await;
    failed_with(&run, ErrorCode::TargetError, "the call failed");
    task.await.unwrap();
    calls.node.leave().await;
}

/// Twenty hanging calls on a node with room for four: they end one after the other, and nothing is left of them.
#[tokio::test]
async fn c13_hanging_calls_leave_nothing_behind() {
    let server = Server::start(|stream, _| hold(stream)).await;
    let calls = Calls::local();
    let hanging = |_| {
        let http = Http { timeout: Some(SignedDuration::from_millis(100)), ..get(server.url("/")) };
        job(http, "{}")
    };
    let ids = calls.world.store.enqueue_jobs((0..20).map(hanging).collect()).await.unwrap();
    for id in ids {
        assert_eq!(calls.world.until_ended(id).await.state(), JobState::Failed);
    }
    server.until_left_alone().await;
    assert_eq!(server.seen().len(), 20);
    calls.node.leave().await;
}
