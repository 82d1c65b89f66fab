//! People are told: real workers, a real receiver of webhooks and a real mail server, which both misbehave.

use crate::process::{Ear, Setup, Worker};
use crate::world::{World, on_both_stores};
use jiff::SignedDuration;
use punctual_core::id::ScheduleId;
use punctual_core::name::Name;
use punctual_core::notify::channel::{ChannelDefinition, ChannelTarget, MailTls};
use punctual_core::notify::delivery::DeliveryState;
use punctual_core::notify::port::DeliveryFilter;
use punctual_core::notify::rule::{GroupBy, RuleDefinition, Trigger};
use punctual_core::retry::RetryPolicy;
use punctual_core::schedule::{ByHand, ScheduleDefinition};
use punctual_core::secret::{SecretRef, Value};
use punctual_core::timing::TimingSpec;
use punctual_testkit::receivers::{MailServer, Receiver};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::time::Duration;

/// 24 bytes in base64, as receivers are given them.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Where somebody is told.
struct Receivers {
    hook: Receiver,
    mail: Receiver,
}

impl Receivers {
    fn start() -> Self {
        Self { hook: Receiver::hook(&[SECRET]), mail: Receiver::mail(&MailServer::default()) }
    }

    fn behave(&mut self, how: &str) {
        self.hook.behave(how);
        // A mail server says the same in its own words.
        let how = match how {
            "status 500" => "data 451",
            "status 429 retry-after 1" => "rcpt 450",
            how => how,
        };
        self.mail.behave(how);
    }

    /// A worker that may call them.
    fn worker(&self, world: &World, ear: &Ear) -> Worker {
        let allow = format!("127.0.0.1:{},127.0.0.1:{}", self.hook.port(), self.mail.port());
        let env = vec![("PUNCTUAL_HTTP_ALLOW".to_owned(), allow), ("HOOK_SECRET".to_owned(), SECRET.to_owned())];
        Worker::start_as(&world.url, &Setup { env, log: "warn", ..Setup::default() }, ear)
    }

    /// A channel to each, and a rule that tells both of each schedule by itself.
    async fn set_up(&self, world: &World) {
        let hook = ChannelTarget::Webhook {
            url: Value::from(self.hook.url("/hook")),
            secrets: vec![SecretRef::new("env:HOOK_SECRET")],
            headers: [].into(),
        };
        let mail = ChannelTarget::Email {
            host: "127.0.0.1".to_owned(),
            port: Some(self.mail.port()),
            tls: MailTls::None,
            username: None,
            password: None,
            from: "Punctual <punctual@a.example>".to_owned(),
            to: vec!["ops@a.example".to_owned()],
        };
        for (channel, target) in [("hook", hook), ("mail", mail)] {
            world.store.create_channel(ChannelDefinition::new(name(channel), target)).await.unwrap();
        }
        let rule = RuleDefinition::new(name("failures"), Trigger::Failure, vec![name("hook"), name("mail")]);
        let rule = RuleDefinition { group_by: GroupBy::Subject, wait: SignedDuration::from_millis(1), ..rule };
        world.store.create_rule(rule).await.unwrap();
    }
}

/// A schedule that runs when it is asked to, and does what its input says.
async fn add_schedule(world: &World, schedule: &str) -> ScheduleId {
    let far = TimingSpec::Every { period: SignedDuration::from_hours(10_000) };
    let target = world.script("read how; echo $how >> \"$EFFECTS\"; eval $(echo $how | tr -d '\"')");
    let definition =
        ScheduleDefinition { retry: RetryPolicy::none(), ..ScheduleDefinition::new(name(schedule), far, target) };
    world.store.create_schedule(definition).await.unwrap().id
}

async fn run(world: &World, schedule: ScheduleId, how: &str) {
    let input = punctual_core::json::Json::from_value("input", &how).unwrap();
    let asked = ByHand { input: Some(input), ..ByHand::default() };
    world.store.trigger_schedule(schedule, asked).await.unwrap();
}

/// What the receiver of webhooks was told, each message once: the schedule and the occasion.
fn told(got: &[Json]) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let new = got.iter().filter(|it| seen.insert(it["headers"]["webhook-id"].as_str().unwrap().to_owned()));
    let line = |it: &Json| {
        let data = &it["event"]["data"];
        let text = |value: &Json| value.as_str().unwrap_or_else(|| panic!("no text in {data}")).to_owned();
        (text(&data["subjects"][0]["name"]), text(&data["occasion"]))
    };
    new.map(line).collect()
}

/// How many different messages were answered well.
fn taken(got: &[Json]) -> usize {
    let well =
        got.iter().filter(|it| it["order"].as_str().is_some_and(|order| order == "ok" || order.starts_with("slow")));
    let ids: BTreeSet<_> = well.map(|it| it["headers"]["webhook-id"].to_string()).collect();
    ids.len()
}

/// Waits until something holds.
async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    for _ in 0..900 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("what was waited for did not come to be");
}

/// Waits until so many messages have arrived, and none is in any line.
async fn until_all_arrived(world: &World, messages: usize) {
    let in_state = |state| DeliveryFilter { state: Some(state), ..DeliveryFilter::default() };
    let (waiting, arrived) = (in_state(DeliveryState::Waiting), in_state(DeliveryState::Arrived));
    until(|| async {
        let open = world.store.deliveries(&waiting, None, 1).await.unwrap().items;
        open.is_empty() && world.store.deliveries(&arrived, None, 1000).await.unwrap().items.len() == messages
    })
    .await;
}

/// What a mail is known by.
fn message_id(mail: &Json) -> String {
    let headers = mail["letter"]["headers"].as_array().unwrap();
    headers.iter().find(|header| header[0] == "message-id").unwrap()[1].as_str().unwrap().to_owned()
}

/// What came by mail, each mail once: its subject.
fn subjects(mails: &[Json]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let new = mails.iter().filter(|mail| seen.insert(message_id(mail)));
    let header = |mail: &Json| {
        let headers = mail["letter"]["headers"].as_array().unwrap();
        headers.iter().find(|header| header[0] == "subject").unwrap()[1].as_str().unwrap().to_owned()
    };
    new.map(header).collect()
}

on_both_stores! {
    async fn n04_every_message_arrives_in_order_whatever_the_receivers_do(world: &World) {
        let mut receivers = Receivers::start();
        receivers.set_up(world).await;
        let (a, b) = (add_schedule(world, "a").await, add_schedule(world, "b").await);
        let ear = Ear::new();
        let _worker = receivers.worker(world, &ear);
        let troubles = ["down", "slow 1", "status 500", "status 429 retry-after 1", "close"];
        for (round, trouble) in troubles.into_iter().enumerate() {
            receivers.behave(trouble);
            run(world, a, "exit 3").await;
            run(world, b, "exit 4").await;
            // Both have been tried, whatever came of it.
            let tried = DeliveryFilter { channel: Some("hook".to_owned()), ..DeliveryFilter::default() };
            until(|| async {
                let page = world.store.deliveries(&tried, None, 100).await.unwrap().items;
                page.len() == 4 * round + 2 && page[1].tries > 0
            })
            .await;
            receivers.behave("ok");
            run(world, a, "exit 0").await;
            run(world, b, "exit 0").await;
            until_all_arrived(world, 8 * (round + 1)).await;
        }
        let got = receivers.hook.got();
        let told = told(&got);
        for schedule in ["a", "b"] {
            let own: Vec<&str> = told.iter().filter(|(of, _)| of == schedule).map(|(_, it)| it.as_str()).collect();
            assert_eq!(own, ["opened", "recovered"].repeat(troubles.len()), "in order: {told:?}");
        }
        assert_eq!(taken(&got), told.len());
        for message in &got {
            assert_eq!(message["verified"], serde_json::json!([true]), "{message:#}");
            let same = got.iter().find(|it| it["headers"]["webhook-id"] == message["headers"]["webhook-id"]).unwrap();
            assert_eq!(same["body"], message["body"], "a message that is sent again says the same");
        }
        let mails = receivers.mail.until(|got| got.len() >= 4 * troubles.len()).await;
        let subjects = subjects(&mails);
        assert_eq!(subjects.len(), 4 * troubles.len(), "{subjects:#?}");
        for schedule in ["a", "b"] {
            let own = subjects.iter().filter(|it| it.starts_with(&format!("[Punctual] {schedule} ")));
            let recoveries: Vec<bool> = own.map(|it| it.contains("recovered")).collect();
            assert_eq!(recoveries, [false, true].repeat(troubles.len()), "in order: {subjects:#?}");
        }
    }

    async fn n04_c09_a_crash_loses_no_message_and_is_itself_told(world: &World) {
        let mut receivers = Receivers::start();
        receivers.set_up(world).await;
        let (a, b) = (add_schedule(world, "a").await, add_schedule(world, "b").await);
        let ear = Ear::new();
        let mut first = receivers.worker(world, &ear);
        // The job is in the middle of its work, and the message is sent and not marked, when the node dies.
        run(world, b, "sleep 600").await;
        receivers.behave("slow 600");
        run(world, a, "exit 3").await;
        receivers.hook.until(|got| !got.is_empty()).await;
        until(|| async { world.lines().len() >= 2 }).await;
        first.kill();
        receivers.behave("ok");
        let _second = receivers.worker(world, &ear);
        let got = receivers.hook.until(|got| taken(got) == 2).await;
        let told = told(&got);
        assert_eq!(told, [("a", "opened"), ("b", "opened")].map(|(of, it)| (of.to_owned(), it.to_owned())));
        let of_a: Vec<&Json> = got.iter().filter(|it| it["event"]["data"]["subjects"][0]["name"] == "a").collect();
        assert!(of_a.len() >= 2, "it went again: {got:#?}");
        assert!(of_a.iter().all(|it| it["headers"]["webhook-id"] == of_a[0]["headers"]["webhook-id"]));
        let lost = got.iter().find(|it| it["event"]["data"]["subjects"][0]["name"] == "b").unwrap();
        assert_eq!(lost["event"]["data"]["error_code"], "node_lost");
        until_all_arrived(world, 4).await;
    }
}
