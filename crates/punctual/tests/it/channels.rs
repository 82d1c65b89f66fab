//! Telling people, with the real binary and real receivers: a channel is tried, a failure is told, somebody acknowledges.

use crate::serve::{Server, punctual};
use punctual_testkit::receivers::{MailServer, Receiver};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use tempfile::TempDir;

const SECRET: &str = "whsec_cHVuY3R1YWxwdW5jdHVhbHB1bmN0dWFs";

/// A server that may call this machine, and its folder.
struct Place {
    server: Server,
    folder: TempDir,
}

impl Place {
    fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), SECRET).unwrap();
        let data = folder.path().to_str().unwrap().to_owned();
        let server = Server::on(&[&["--data", &data, "--http-allow", "127.0.0.1"], more].concat());
        Self { server, folder }
    }

    /// Runs a command; its exit code, and all that it says.
    fn run(&self, words: &[&str]) -> (i32, String) {
        let data = self.folder.path().to_str().unwrap();
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let output = punctual(&[&words[..at], &["--data", data], &words[at..]].concat()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    }

    fn done(&self, words: &[&str]) -> String {
        let (code, said) = self.run(words);
        assert_eq!(code, 0, "{words:?}: {said}");
        said
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[words, &["--json"]].concat())).unwrap()
    }

    fn add_hook(&self, receiver: &Receiver) {
        let secret = format!("file:{}/secret", self.folder.path().display());
        self.done(&["channel", "add", "hook", "--webhook", &receiver.url("/hook"), "--secret", &secret]);
    }

    /// Asks the server for something outside the API, as a browser would.
    fn browse(&self, method: &str, path: &str) -> String {
        let host = self.server.url().trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 0\r\n");
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n01_a_channel_is_tried_and_what_came_back_is_said() {
    let place = Place::new(&[]);
    let (mut hook, mut mail) = (Receiver::hook(&[SECRET]), Receiver::mail(&MailServer::default()));
    place.add_hook(&hook);
    let server = format!("127.0.0.1:{}", mail.port());
    let mailing = ["channel", "add", "mail", "--email", "o@b.example", "--smtp", &server, "--tls", "none"];
    place.done(&[&mailing[..], &["--from", "p@a.example"]].concat());
    assert_eq!(place.done(&["channel", "test", "hook"]), "hook: it arrived: 200: ok\n");
    let got = hook.until(|got| got.len() == 1).await;
    assert_eq!(got[0]["verified"], serde_json::json!([true]));
    assert_eq!(got[0]["event"]["type"], "dev.punctual.test");
    assert_eq!(place.done(&["channel", "test", "mail"]), "mail: it arrived: 250 taken\n");
    assert_eq!(mail.until(|got| got.len() == 1).await[0]["to"], serde_json::json!(["o@b.example"]));
    hook.behave("status 500");
    let (code, said) = place.run(&["channel", "test", "hook"]);
    assert_eq!((code, said.as_str()), (1, "error: hook: it did not arrive: the answer is 500: told to\n"));
    mail.behave("down");
    let (code, said) = place.run(&["channel", "test", "mail"]);
    assert!(code == 1 && said.contains("it did not arrive: the mail server cannot be reached"), "{code} {said}");
    // What did not arrive holds up nobody.
    hook.behave("ok");
    assert_eq!(place.done(&["channel", "test", "hook"]), "hook: it arrived: 200: ok\n");
    let dropped = place.json(&["delivery", "ls", "--state", "dropped"]);
    assert_eq!(dropped["items"].as_array().unwrap().len(), 2, "{dropped}");
    let first = got[0]["event"]["id"].as_str().unwrap().to_owned();
    place.done(&["delivery", "resend", &first]);
    let times = |got: &[Value]| got.iter().filter(|it| it["event"]["id"] == first.as_str()).count();
    hook.until(|got| times(got) == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n03_a_failure_is_told_and_acknowledged_by_the_link_in_the_message() {
    let place = Place::new(&["--public-url", "https://punctual.example.com/"]);
    let hook = Receiver::hook(&[SECRET]);
    place.add_hook(&hook);
    place.done(&[
        "rule",
        "add",
        "failures",
        "--on",
        "failure",
        "--wait",
        "1ms",
        "--channel",
        "hook",
        "--then",
        "hook:1h",
    ]);
    place.done(&["job", "add", "--attempts", "1", "--", "sh", "-c", "echo disk full >&2; exit 3"]);
    let got = hook.until(|got| got.len() == 1).await;
    let event = &got[0]["event"];
    assert_eq!(
        (&event["type"], &event["source"]),
        (&"dev.punctual.alert.opened".into(), &"https://punctual.example.com".into())
    );
    let link = event["data"]["links"]["acknowledge"].as_str().unwrap();
    let path = link.strip_prefix("https://punctual.example.com").unwrap();
    let alert = event["data"]["alert_id"].as_str().unwrap();
    assert!(place.done(&["alert", "ls", "--open"]).contains(alert));
    let page = place.browse("GET", path);
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("<button>"), "{page}");
    assert_eq!(place.json(&["alert", "show", alert])["state"], "open", "a look changes nothing");
    let page = place.browse("POST", path);
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("Acknowledged at "), "{page}");
    let shown = place.json(&["alert", "show", alert]);
    assert_eq!((&shown["state"], &shown["told"]), (&"acknowledged".into(), &serde_json::json!(["hook"])));
    let said = place.done(&["alert", "acknowledge", alert, "--note", "too late"]);
    assert_eq!(said, format!("{alert}: acknowledged; nobody else is told\n"), "the first one stands");
}
