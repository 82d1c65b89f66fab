//! Webhooks, chats and pings: what arrives, and what becomes of it when the receiver is not well.

use super::{Sender, arrived, delivery, failed, hostile, plain, refused};
use jiff::SignedDuration;
use punctual_core::notify::channel::ChannelTarget;
use punctual_core::notify::message::{Message, Sent};
use punctual_core::secret::{SecretRef, Value};
use punctual_engine::notify::courier::PostOptions;
use punctual_testkit::receivers::Receiver;
use std::collections::BTreeMap;
use std::time::Duration;

const OLD: &str = "whsec_b2xkb2xkb2xkb2xkb2xkb2xkb2xkb2xk";
const NEW: &str = "bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3";

fn webhook(url: &str, secrets: Vec<SecretRef>) -> ChannelTarget {
    ChannelTarget::Webhook { url: plain(url), secrets, headers: BTreeMap::new() }
}

#[tokio::test]
async fn n01_a_webhook_is_verified_by_others_while_its_secret_changes() {
    let receiver = Receiver::hook(&[OLD, NEW]);
    let sender = Sender::with(crate::http::local_options(), |options| PostOptions {
        public_url: Some("https://p.example".to_owned()),
        ..options
    });
    let (old, new) = (sender.secret("old", OLD), sender.secret("new", &format!("{NEW}\n")));
    let url = receiver.url("/hook");
    let turns =
        [(vec![old.clone()], [true, false]), (vec![new.clone(), old], [true, true]), (vec![new], [false, true])];
    for (turn, (secrets, verdicts)) in turns.into_iter().enumerate() {
        let sent = sender.send(webhook(&url, secrets), &hostile()).await;
        assert_eq!(arrived(&sent), "200: ok");
        let last = receiver.until(|got| got.len() > turn).await.pop().unwrap();
        let verified: Vec<bool> = last["verified"].as_array().unwrap().iter().map(|verdict| *verdict == true).collect();
        assert_eq!(verified, verdicts, "{last:#}");
    }
    let got = receiver.got();
    assert!(got.iter().all(|message| message["body"] == got[0]["body"]), "the same bytes at every attempt");
    let (headers, event) = (&got[0]["headers"], &got[0]["event"]);
    assert_eq!(headers["webhook-id"], format!("msg_{}", delivery()));
    assert_eq!(headers["content-type"], "application/cloudevents+json; charset=utf-8");
    assert_eq!(event["id"], delivery().to_string());
    assert_eq!(event["type"], "dev.punctual.alert.opened");
    assert_eq!(event["source"], "https://p.example");
    assert_eq!(event["subject"], "schedule/x Bcc: evil@c.example <b>ü</b>");
    assert_eq!(event["time"], "2026-01-01T00:00:00+00:00");
    let data = &event["data"];
    assert_eq!(data["links"]["acknowledge"], "https://p.example/acknowledge/c0de");
    assert_eq!((&data["trigger"], &data["count"]), (&"failure".into(), &3.into()));
    assert_eq!(data["error"], hostile().error.unwrap(), "a program gets the error to the letter");
    assert!(data["title"].as_str().unwrap().starts_with("x Bcc: evil@c.example <b>ü</b> failed 3 times"), "{data}");
}

#[tokio::test]
async fn n01_a_webhook_has_headers_of_its_own_and_no_secret_in_any_error() {
    let mut receiver = Receiver::hook(&[]);
    let sender = Sender::new();
    let token = Value::Secret(sender.secret("token", "Bearer hunter2-hunter2"));
    let target = |secret: SecretRef| ChannelTarget::Webhook {
        url: Value::Secret(sender.secret("url", &receiver.url("/hook/s3cr3t-path"))),
        secrets: vec![secret],
        headers: BTreeMap::from([("authorization".to_owned(), token.clone())]),
    };
    let (good, bad) = (target(sender.secret("key", NEW)), target(sender.secret("bad", "hunter2-hunter2")));
    let missing = target(SecretRef::new("file:/nowhere/at/all"));
    arrived(&sender.send(good.clone(), &hostile()).await);
    let got = receiver.until(|got| got.len() == 1).await;
    assert_eq!(got[0]["headers"]["authorization"], "Bearer hunter2-hunter2");
    assert_eq!(got[0]["path"], "/hook/s3cr3t-path");
    receiver.behave("status 500");
    let mut errors = vec![failed(&sender.send(good.clone(), &hostile()).await).to_owned()];
    receiver.behave("down");
    errors.push(failed(&sender.send(good, &hostile()).await).to_owned());
    errors.push(failed(&sender.send(bad, &hostile()).await).to_owned());
    errors.push(failed(&sender.send(missing, &hostile()).await).to_owned());
    for (error, says) in errors.iter().zip(["500: told to", "refused", "openssl rand", "cannot be read"]) {
        assert!(error.contains(says), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("s3cr3t"), "{error}");
    }
}

#[tokio::test]
async fn n04_a_receiver_that_is_not_well_is_asked_again_and_one_that_says_no_is_not() {
    let mut receiver = Receiver::hook(&[NEW]);
    let sender = Sender::with(crate::http::local_options(), |options| PostOptions {
        attempt_timeout: Duration::from_secs(2),
        ..options
    });
    let target = webhook(&receiver.url("/"), vec![sender.secret("key", NEW)]);
    for (order, says) in [
        ("status 500", "500"),
        ("status 404", "404"),
        ("status 503", "503"),
        ("status 302 location http://127.0.0.1:1/", "not followed"),
        ("close", "the call failed"),
        ("slow 30", "no answer within 2s"),
        ("down", "refused"),
    ] {
        receiver.behave(order);
        let sent = sender.send(target.clone(), &hostile()).await;
        assert!(failed(&sent).contains(says), "{order}: {sent:?}");
    }
    for (order, wait) in [
        ("status 429 retry-after 7", 7),
        ("status 503 retry-after 120", 120),
        ("status 429 retry-after 999999999", 24 * 3600),
    ] {
        receiver.behave(order);
        let sent = sender.send(target.clone(), &hostile()).await;
        let Sent::Failed { retry_after, .. } = sent else { panic!("{order}: {sent:?}") };
        assert_eq!(retry_after, Some(SignedDuration::from_secs(wait)), "{order}");
    }
    for status in [400, 405, 410, 413, 414, 415, 422] {
        receiver.behave(&format!("status {status}"));
        let sent = sender.send(target.clone(), &hostile()).await;
        assert!(refused(&sent).contains(&status.to_string()), "{sent:?}");
    }
    receiver.behave("status 204");
    assert_eq!(arrived(&sender.send(target, &hostile()).await), "204");
    let got = receiver.got();
    let ids: Vec<&serde_json::Value> = got.iter().map(|message| &message["headers"]["webhook-id"]).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one id over all attempts");
    assert!(got.iter().all(|message| message["verified"][0] == true));
}

#[tokio::test]
async fn n01_a_chat_gets_text_and_blocks_in_which_nobody_is_called() {
    let receiver = Receiver::hook(&[]);
    let sender = Sender::new();
    let target = ChannelTarget::Slack { url: plain(&receiver.url("/services/T0/B0/x")) };
    assert_eq!(arrived(&sender.send(target, &hostile()).await), "200: ok");
    let got = receiver.until(|got| got.len() == 1).await;
    assert_eq!(got[0]["headers"]["content-type"], "application/json; charset=utf-8");
    let body: serde_json::Value = serde_json::from_str(got[0]["body"].as_str().unwrap()).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(text.contains("&lt;!channel&gt; line 1") && !text.contains("<!"), "{text}");
    assert!(text.contains("`punctual alert acknowledge 00000000-0000-0000-0000-0000000000a1`"), "{text}");
    assert_eq!(body["blocks"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn n02_a_ping_is_a_plain_call() {
    let receiver = Receiver::hook(&[]);
    let sender = Sender::new();
    let well = Message::well(hostile().at, hostile().rule.unwrap());
    let target = ChannelTarget::Ping { url: plain(&receiver.url("/ping/1?x=2")) };
    arrived(&sender.send(target, &well).await);
    let got = receiver.until(|got| got.len() == 1).await;
    assert_eq!(
        (&got[0]["method"], &got[0]["path"], &got[0]["body"]),
        (&"GET".into(), &"/ping/1?x=2".into(), &"".into())
    );
}
