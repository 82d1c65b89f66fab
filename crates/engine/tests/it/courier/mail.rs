//! E-mail to a real mail server: secured in every way, with and without a login, and when it does not want to.

use super::{Sender, arrived, delivery, failed, hostile, refused, written};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use punctual_core::notify::channel::{ChannelTarget, MailTls};
use punctual_core::secret::Value;
use punctual_engine::notify::courier::PostOptions;
use punctual_engine::targets::http::HttpOptions;
use punctual_testkit::receivers::{MailServer, Receiver};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PASSWORD: &str = "correct horse battery";

fn email(port: u16, tls: MailTls, to: &[&str]) -> ChannelTarget {
    ChannelTarget::Email {
        host: "127.0.0.1".to_owned(),
        port: Some(port),
        tls,
        username: None,
        password: None,
        from: "Punctual <p@a.example>".to_owned(),
        to: to.iter().map(|&to| to.to_owned()).collect(),
    }
}

/// An authority, and the files of a certificate of its.
fn certificate(folder: &Path, host: &str) -> (CertificateDer<'static>, PathBuf, PathBuf) {
    let (root_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = root.self_signed(&root_key).unwrap().der().clone();
    let issuer = Issuer::new(root, root_key);
    let leaf = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let file = written(folder, &format!("{host}.pem"), &pem("CERTIFICATE", leaf.der()));
    (authority, file, written(folder, &format!("{host}.key"), &pem("PRIVATE KEY", &key.serialize_der())))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn header<'a>(letter: &'a serde_json::Value, name: &str) -> Vec<&'a str> {
    let headers = letter["headers"].as_array().unwrap();
    headers.iter().filter(|header| header[0] == name).map(|header| header[1].as_str().unwrap()).collect()
}

#[tokio::test]
async fn n01_a_letter_arrives_as_text_and_html_and_nothing_in_it_breaks_out() {
    let server = Receiver::mail(&MailServer::default());
    let sender = Sender::new();
    let target = email(server.port(), MailTls::None, &["o@b.example", "Two <t@b.example>"]);
    let sent = sender.send(target, &hostile()).await;
    assert_eq!(arrived(&sent), "250 taken");
    let got = server.until(|got| got.len() == 1).await;
    assert_eq!(got[0]["from"], "p@a.example");
    assert_eq!(got[0]["to"], serde_json::json!(["o@b.example", "t@b.example"]));
    let letter = &got[0]["letter"];
    assert_eq!(letter["defects"], serde_json::json!([]), "{letter:#}");
    assert_eq!(
        header(letter, "subject"),
        ["[Punctual] x Bcc: evil@c.example <b>ü</b> failed 3 times: <!channel> line 1"]
    );
    assert_eq!(header(letter, "bcc"), [""; 0]);
    assert_eq!(header(letter, "message-id"), [format!("<{}@a.example>", delivery())]);
    assert_eq!(header(letter, "auto-submitted"), ["auto-generated"]);
    assert_eq!(header(letter, "references"), ["<alert.00000000-0000-0000-0000-0000000000a1@a.example>"]);
    let (text, html) = (letter["text"].as_str().unwrap(), letter["html"].as_str().unwrap());
    assert!(text.contains("MAIL FROM:<evil>") && text.contains("punctual alert acknowledge"), "{text}");
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script") && !html.contains("<b>"), "{html}");
}

#[tokio::test]
async fn n01_a_mail_server_is_believed_by_its_certificate_only_and_gets_the_password_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, file, key) = certificate(folder.path(), "127.0.0.1");
    let http = HttpOptions { authorities: vec![authority], ..crate::http::local_options() };
    let trusting = Sender::with(http, |options| options);
    let careful = Sender::new();
    for (tls, name) in [(MailTls::Starttls, "starttls"), (MailTls::Implicit, "implicit")] {
        let server = Receiver::mail(&MailServer {
            tls: Some(name),
            certificate: Some((&file, &key)),
            login: Some(("punctual", PASSWORD)),
        });
        let with = |password: &str| {
            let mut target = email(server.port(), tls, &["o@b.example"]);
            if let ChannelTarget::Email { username, password: kept, .. } = &mut target {
                *username = Some(Value::from("punctual"));
                *kept = Some(trusting.secret("password", password));
            }
            target
        };
        arrived(&trusting.send(with(PASSWORD), &hostile()).await);
        let got = server.until(|got| got.len() == 1).await;
        assert_eq!((&got[0]["tls"], &got[0]["user"]), (&true.into(), &"punctual".into()), "{name}");
        let sent = trusting.send(with("wrong wrong wrong"), &hostile()).await;
        assert!(failed(&sent).contains("refuses the login") && failed(&sent).contains("535"), "{sent:?}");
        assert!(!failed(&sent).contains("wrong"), "{sent:?}");
        let sent = careful.send(with(PASSWORD), &hostile()).await;
        assert!(failed(&sent).contains("UnknownIssuer"), "{name}: {sent:?}");
        assert_eq!(server.got().len(), 1, "nothing else came through");
    }
}

#[tokio::test]
async fn n01_starttls_is_not_given_up_when_it_is_not_offered() {
    let server = Receiver::mail(&MailServer::default());
    let sent = Sender::new().send(email(server.port(), MailTls::Starttls, &["o@b.example"]), &hostile()).await;
    assert!(failed(&sent).contains("does not offer STARTTLS"), "{sent:?}");
    assert_eq!(server.got().len(), 0);
}

#[tokio::test]
async fn n04_a_mail_server_that_says_later_is_asked_again_and_one_that_says_never_is_not() {
    let mut server = Receiver::mail(&MailServer::default());
    let sender = Sender::with(crate::http::local_options(), |options| PostOptions {
        attempt_timeout: Duration::from_secs(2),
        ..options
    });
    let target = email(server.port(), MailTls::None, &["o@b.example", "t@b.example"]);
    for (order, says) in [
        ("rcpt 450", "450"),
        ("rcpt 535", "535"),
        ("data 451", "451"),
        ("data 500", "500"),
        ("slow 30", "no answer within 2s"),
        ("close", "does not take the letter"),
        ("down", "cannot be reached"),
    ] {
        server.behave(order);
        let sent = sender.send(target.clone(), &hostile()).await;
        assert!(failed(&sent).contains(says), "{order}: {sent:?}");
    }
    for order in ["rcpt 550", "rcpt 553", "data 554"] {
        server.behave(order);
        let sent = sender.send(target.clone(), &hostile()).await;
        assert!(refused(&sent).contains(&order[5..]), "{order}: {sent:?}");
    }
    // Somebody who is not known does not keep it from the others.
    server.behave("rcpt 550 o@b.example");
    let sent = sender.send(target, &hostile()).await;
    assert!(arrived(&sent).starts_with("250 taken; not for o@b.example: "), "{sent:?}");
    let only = serde_json::json!(["t@b.example"]);
    server.until(|got| got.last().is_some_and(|last| last["to"] == only)).await;
}
