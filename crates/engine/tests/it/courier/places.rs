//! Where messages may not go: the same guard as for the calls of jobs, whatever the channel.

use super::{Sender, failed, hostile, plain};
use crate::http::dns::DnsServer;
use crate::http::server::{Server, answer};
use punctual_core::notify::channel::{ChannelTarget, MailTls};
use punctual_engine::targets::http::HttpOptions;
use punctual_engine::targets::http::guard::Guard;

fn by_http(url: &str) -> ChannelTarget {
    ChannelTarget::Slack { url: plain(url) }
}

fn by_mail(host: &str, port: u16) -> ChannelTarget {
    ChannelTarget::Email {
        host: host.to_owned(),
        port: Some(port),
        tls: MailTls::None,
        username: None,
        password: None,
        from: "p@a.example".to_owned(),
        to: vec!["o@b.example".to_owned()],
    }
}

#[tokio::test]
async fn b12_no_message_goes_inside_unless_the_node_allows_it() {
    let trap = Server::at("127.0.0.1:0", |_, _| async {}).await;
    let port = trap.address.port();
    let dns =
        DnsServer::start(&[("inside.test", &[&["127.0.0.1"]]), ("mixed.test", &[&["93.184.215.14", "10.0.0.1"]])]);
    let dns = dns.await;
    let guard = Guard::default().with_ports([port]);
    let asking =
        Sender::with(HttpOptions { guard: guard.clone(), names: dns.names(), ..HttpOptions::default() }, |it| it);
    let system = Sender::with(HttpOptions { guard, ..HttpOptions::default() }, |it| it);
    for (sender, host, why) in [
        (&asking, "169.254.169.254", "link-local"),
        (&asking, "[::1]", "loopback"),
        (&asking, "inside.test", "loopback"),
        (&asking, "mixed.test", "private"),
        (&system, "localhost", "loopback"),
    ] {
        for target in [by_http(&format!("http://{host}:{port}/x")), by_mail(host, port)] {
            let sent = sender.send(target, &hostile()).await;
            assert!(failed(&sent).contains(why) && failed(&sent).contains("--http-allow"), "{host}: {sent:?}");
        }
    }
    assert_eq!((trap.seen().len(), trap.arrived.available_permits()), (0, 0), "nobody came through");
}

#[tokio::test]
async fn b12_a_message_does_not_follow_a_redirect_inside() {
    let inner = Server::at("127.0.0.2:0", |_, _| async {}).await;
    let outer = Server::saying(answer(307, &format!("location: http://{}/\r\n", inner.address), "")).await;
    let sent = Sender::new().send(by_http(&outer.url("/")), &hostile()).await;
    assert!(failed(&sent).contains("307, a redirect, which is not followed"), "{sent:?}");
    assert_eq!((outer.seen().len(), inner.seen().len()), (1, 0));
}

#[tokio::test]
async fn b12_letters_go_to_the_ports_of_mail_servers_and_no_others() {
    let dns = DnsServer::start(&[("mail.test", &[&["10.0.0.1"]]), ("public.test", &[&["93.184.215.14"]])]).await;
    let sender = Sender::with(HttpOptions { names: dns.names(), ..HttpOptions::default() }, |it| it);
    let sent = sender.send(by_mail("public.test", 22), &hostile()).await;
    assert!(failed(&sent).contains("port 22 of public.test is not one that may be called"), "{sent:?}");
    // The ports are fine here, and the address is not.
    for port in [25, 465, 587, 2525] {
        let sent = sender.send(by_mail("mail.test", port), &hostile()).await;
        assert!(failed(&sent).contains("private"), "{sent:?}");
    }
    let web = sender.send(by_http("http://public.test:25/"), &hostile()).await;
    assert!(failed(&web).contains("port 25"), "{web:?}");
}
