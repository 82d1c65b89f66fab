//! Where calls may not go, in every spelling, and where they may.

use super::dns::DnsServer;
use super::server::{Server, answer};
use super::{Calls, allowing, get, output};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::target::Http;
use punctual_engine::targets::http::HttpOptions;
use punctual_engine::targets::http::guard::{Allowed, Guard, why_not_public};

/// Spellings of addresses that no job may call. `P` is the port on which a trap listens, on all addresses of this
/// machine.
const FORBIDDEN: [&str; 69] = [
    // This machine, as IPv4: decimal, octal, hexadecimal, short, with a dot, in other digits, escaped.
    "http://127.0.0.1:P/",
    "http://127.255.255.254:P/",
    "http://2130706433:P/",
    "http://017700000001:P/",
    "http://0177.0.0.1:P/",
    "http://0177.0.0.01:P/",
    "http://0x7f000001:P/",
    "http://0x7F.0x0.0x0.0x1:P/",
    "http://0x7f.1:P/",
    "http://127.1:P/",
    "http://127.0.1:P/",
    "http://127.0.0.1.:P/",
    "http://①②⑦.⓪.⓪.①:P/",
    "http://127。0。0。1:P/",
    "http://%31%32%37.0.0.1:P/",
    "http://%3127.0.0.1:P/",
    "http://0:P/",
    "http://0.0.0.0:P/",
    "http://0x0:P/",
    "http://00.00.00.00:P/",
    "HTTP://127.0.0.1:P/",
    "http:127.0.0.1:P/",
    "http:\\\\127.0.0.1:P\\",
    "http:///127.0.0.1:P/",
    " http://127.0.0.1:P/",
    // Its networks, and the metadata service of a cloud.
    "http://10.0.0.1:P/",
    "http://172.16.0.1:P/",
    "http://172.31.255.255:P/",
    "http://192.168.1.1:P/",
    "http://100.64.0.1:P/",
    "http://169.254.169.254:P/latest/meta-data/",
    "http://2852039166:P/",
    "http://0xa9fea9fe:P/",
    "http://0251.0376.0251.0376:P/",
    "http://224.0.0.1:P/",
    "http://255.255.255.255:P/",
    "http://240.0.0.1:P/",
    "http://192.0.0.170:P/",
    "http://192.0.2.1:P/",
    "http://192.88.99.1:P/",
    "http://198.18.0.1:P/",
    "http://198.51.100.7:P/",
    "http://203.0.113.9:P/",
    // IPv6, and IPv4 inside of it.
    "http://[::1]:P/",
    "http://[0:0:0:0:0:0:0:1]:P/",
    "http://[::]:P/",
    "http://[::ffff:127.0.0.1]:P/",
    "http://[::ffff:7f00:1]:P/",
    "http://[::ffff:0:127.0.0.1]:P/",
    "http://[::127.0.0.1]:P/",
    "http://[64:ff9b::7f00:1]:P/",
    "http://[64:ff9b::169.254.169.254]:P/",
    "http://[64:ff9b:1::a00:1]:P/",
    "http://[2002:7f00:1::]:P/",
    "http://[2001:0:7f00:1::]:P/",
    "http://[fd00:ec2::254]:P/",
    "http://[fe80::1]:P/",
    "http://[fec0::1]:P/",
    "http://[ff02::1]:P/",
    "http://[2001:db8::1]:P/",
    "http://[3fff::1]:P/",
    "http://[100::1]:P/",
    // Somebody else in front.
    "http://example.com@127.0.0.1:P/",
    "http://93.184.215.14:80@127.0.0.1:P/",
    "http://127.0.0.1:P@93.184.215.14/",
    // Other ports and other protocols.
    "http://93.184.215.14:22/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:P/",
    "data:,hello",
];

/// Names, and what their name server says about them.
const NAMES: [(&str, &[&[&str]]); 8] = [
    ("inside.test", &[&["10.1.2.3"]]),
    ("here.test", &[&["127.0.0.1"]]),
    ("here6.test", &[&["::1"]]),
    ("mapped.test", &[&["::ffff:127.0.0.1"]]),
    ("metadata.test", &[&["169.254.169.254"]]),
    // One good address does not make up for a bad one.
    ("mixed.test", &[&["93.184.215.14", "127.0.0.1"]]),
    ("mixed6.test", &[&["93.184.215.14", "::1"]]),
    ("rebinding.test", &[&["127.0.0.1"], &["10.0.0.1"]]),
];

/// Waits for the trap's word on one address after the other; the whole way is the job's, from the store to the socket.
async fn refused(calls: &Calls, url: &str) {
    let input = serde_json::json!({ "url": url }).to_string();
    let run = calls.call(get("{{ input.url | safe }}"), &input).await;
    assert_eq!(run.error_code, Some(ErrorCode::TargetRejected), "{url}: {run:?}");
    assert!(run.is_final, "a refused call is not tried again");
}

#[tokio::test]
async fn d06_no_spelling_of_a_forbidden_address_is_called() {
    let trap = Server::at("[::]:0", |_, _| async {}).await;
    let port = trap.address.port();
    let dns = DnsServer::start(&NAMES).await;
    let guard = Guard::default().with_ports([80, port]);
    let calls = Calls::new(HttpOptions { guard, names: dns.names(), ..HttpOptions::default() });
    for url in FORBIDDEN {
        refused(&calls, &url.replace(":P", &format!(":{port}"))).await;
    }
    for (name, _) in NAMES {
        refused(&calls, &format!("http://{name}:{port}/")).await;
        refused(&calls, &format!("http://{}.:{port}/", name.to_uppercase())).await;
    }
    assert_eq!(trap.seen().len(), 0, "nobody came through");
    assert_eq!(trap.arrived.available_permits(), 0);
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_names_of_this_machine_are_refused_by_the_system_resolver_too() {
    let trap = Server::at("[::]:0", |_, _| async {}).await;
    let port = trap.address.port();
    let calls = Calls::new(HttpOptions { guard: Guard::default().with_ports([port]), ..HttpOptions::default() });
    for name in ["localhost", "LOCALHOST"] {
        refused(&calls, &format!("http://{name}:{port}/")).await;
    }
    assert_eq!(trap.seen().len(), 0);
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_the_address_that_was_checked_is_the_one_that_is_called() {
    let server = Server::saying(answer(200, "", "hello")).await;
    let trap = Server::at(&format!("127.0.0.2:{}", server.address.port()), |_, _| async {}).await;
    // The second answer would lead into the trap, if anybody asked a second time.
    let dns = DnsServer::start(&[("rebinding.test", &[&["127.0.0.1"], &["127.0.0.2"]])]).await;
    let calls = Calls::new(HttpOptions {
        guard: allowing(&["127.0.0.1", "127.0.0.2"]),
        names: dns.names(),
        ..HttpOptions::default()
    });
    let run = calls.call(get(format!("http://rebinding.test:{}/", server.address.port())), "{}").await;
    assert_eq!(run.outcome, Outcome::Completed, "{run:?}");
    assert_eq!((dns.asked("rebinding.test"), server.seen().len(), trap.seen().len()), (1, 1, 0));
    let host = format!("rebinding.test:{}", server.address.port());
    assert_eq!(server.seen()[0].header("host"), Some(host.as_str()), "the name is kept");
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_what_the_node_allows_passes_and_nothing_else() {
    let server = Server::at("[::]:0", |mut stream, _| async move {
        let _gone = tokio::io::AsyncWriteExt::write_all(&mut stream, answer(200, "", "in").as_bytes()).await;
    })
    .await;
    let port = server.address.port();
    let dns = DnsServer::start(&[("app.test", &[&["127.0.0.3"]]), ("other.test", &[&["127.0.0.3"]])]).await;
    let places = ["127.0.0.1", "127.0.1.0/24", "[::1]", "app.test", &format!("127.0.0.9:{port}"), "127.0.0.8:1"];
    let calls = Calls::new(HttpOptions { guard: allowing(&places), names: dns.names(), ..HttpOptions::default() });
    for place in ["127.0.0.1", "2130706433", "127.0.1.77", "[::1]", "app.test", "App.Test.", "127.0.0.9"] {
        let run = calls.call(get(format!("http://{place}:{port}/")), "{}").await;
        assert_eq!(output(&run)["body"], "in", "{place}: {run:?}");
    }
    for place in ["127.0.0.2", "127.0.2.1", "other.test", "127.0.0.3", "127.0.0.8", "[::ffff:127.0.0.1]"] {
        refused(&calls, &format!("http://{place}:{port}/")).await;
    }
    assert_eq!(server.seen().len(), 7);
    calls.node.leave().await;
}

#[tokio::test]
async fn d06_each_redirect_is_checked_like_the_first_address() {
    let inner = Server::at("127.0.0.2:0", |_, _| async {}).await;
    let inside = inner.address;
    let outer = Server::start(move |mut stream, seen| async move {
        let path = seen.head.split(' ').nth(1).unwrap_or_default().to_owned();
        let location = match path.as_str() {
            "/inside" => format!("http://{inside}/"),
            "/number" => format!("http://2130706434:{}/", inside.port()),
            "/file" => "file:///etc/passwd".to_owned(),
            "/loop" => "/loop".to_owned(),
            "/here" => "/end".to_owned(),
            _ => String::new(),
        };
        let redirect = format!("location: {location}\r\n");
        let said = if location.is_empty() { answer(200, "", "end") } else { answer(302, &redirect, "") };
        let _gone = tokio::io::AsyncWriteExt::write_all(&mut stream, said.as_bytes()).await;
    })
    .await;
    let calls = Calls::local();
    let following = |path: &str| Http { redirects: 3, ..get(outer.url(path)) };
    for path in ["/inside", "/number", "/file"] {
        let run = calls.call(following(path), "{}").await;
        assert_eq!(run.error_code, Some(ErrorCode::TargetRejected), "{path}: {run:?}");
    }
    assert_eq!(inner.seen().len(), 0, "nobody came through");
    let run = calls.call(get(outer.url("/inside")), "{}").await;
    assert_eq!(run.error_code, Some(ErrorCode::TargetError), "redirects are not followed unasked: {run:?}");
    assert!(run.is_final && output(&run)["headers"]["location"] == format!("http://{inside}/"));
    assert_eq!(output(&calls.call(following("/here"), "{}").await)["body"], "end");
    let before = outer.seen().len();
    let run = calls.call(following("/loop"), "{}").await;
    assert_eq!((run.error_code, outer.seen().len() - before), (Some(ErrorCode::TargetError), 4));
    calls.node.leave().await;
}

#[test]
fn d06_public_addresses_are_not_refused() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.1",
        "93.184.215.14",
        "100.63.255.255",
        "100.128.0.1",
        "126.255.255.255",
        "128.0.0.1",
        "169.253.255.255",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "192.167.255.255",
        "198.17.255.255",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "2001:4860:4860::8888",
        "2003::1",
    ] {
        assert_eq!(why_not_public(address.parse().unwrap()), None, "{address}");
    }
}

#[test]
fn d06_where_this_process_listens_is_refused_whatever_is_allowed() {
    let own = ["127.0.0.1:7878", "0.0.0.0:7979"].map(|own| own.parse().unwrap()).to_vec();
    let guard = allowing(&["127.0.0.0/8", "93.184.215.14"]).with_own(own);
    let check = |address: &str, port| guard.check("host", address.parse().unwrap(), port).is_ok();
    assert!(!check("127.0.0.1", 7878));
    assert!(check("127.0.0.1", 7877));
    assert!(!check("127.0.0.5", 7979), "who listens everywhere is reached by every address of the machine");
    assert!(check("93.184.215.14", 7979));
}

#[test]
fn d06_exceptions_are_hosts_addresses_and_nets() {
    let good =
        ["example.com", "example.com:8080", "10.1.2.3", "10.0.0.0/8", "10.0.0.0/8:80", "fd00::/8", "[::1]:9", "::1"];
    for text in good {
        assert!(text.parse::<Allowed>().is_ok(), "{text}");
    }
    for text in ["", ":80", "a b", "10.0.0.0/33", "fd00::/129", "host:99999", "http://host", "*", "10.0.0.0/x", ".a"] {
        assert!(text.parse::<Allowed>().is_err(), "{text}");
    }
}
