//! Telling people: channels and rules, what becomes an alert, who is told when, and what is found to be wrong.

use crate::prelude::*;
use jiff::SignedDuration;
use punctual_core::id::AlertId;
use punctual_core::job::NewJob;
use punctual_core::notify::alert::Alert;
use punctual_core::notify::channel::{ChannelDefinition, ChannelTarget};
use punctual_core::notify::delivery::Delivery;
use punctual_core::notify::message::Occasion;
use punctual_core::notify::port::{AlertFilter, DeliveryFilter, Judged};
use punctual_core::notify::rule::{RuleDefinition, Trigger};
use punctual_core::retry::RetryPolicy;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::secret::Value;
use punctual_core::store::{FinishedRun, Lease, Retention, StoreError};

/// A channel that leads to a chat.
pub(super) fn chat(name: &str) -> ChannelDefinition {
    ChannelDefinition::new(named(name), ChannelTarget::Slack { url: Value::from("https://chat.example/hook") })
}

pub(super) fn ping(name: &str) -> ChannelDefinition {
    ChannelDefinition::new(named(name), ChannelTarget::Ping { url: Value::from("https://alive.example/1") })
}

/// A rule that tells one channel, a second after the fact.
pub(super) fn rule(name: &str, on: Trigger, channel: &str) -> RuleDefinition {
    RuleDefinition { wait: secs(1), ..RuleDefinition::new(named(name), on, vec![named(channel)]) }
}

pub(super) async fn add_channel(world: &World, channel: ChannelDefinition) {
    world.store().create_channel(channel).await.expect("the channel is made");
}

pub(super) async fn add_rule(world: &World, rule: RuleDefinition) {
    world.store().create_rule(rule).await.expect("the rule is made");
}

/// A pass over the news, and a look if one is asked for.
pub(super) async fn judge(world: &World, lease: Lease) -> Judged {
    let judged = world.store().judge_news_if_leased(lease, ALL, None).await.expect("the news is taken in");
    let Some(look) = &judged.look else { return judged };
    let findings = world.store().look(look).await.expect("somebody can look");
    let after = world.store().judge_news_if_leased(lease, ALL, Some(findings)).await.expect("it is taken in");
    Judged {
        notices: judged.notices,
        opened: judged.opened + after.opened,
        messages: judged.messages + after.messages,
        ..after
    }
}

/// Lets time pass, waking for whatever is due, as a node does.
async fn let_pass(world: &World, lease: Lease, time: SignedDuration) {
    let end = world.clock_now() + time;
    loop {
        let judged = judge(world, lease).await;
        let left = end.duration_since(world.clock_now());
        match judged.again_in {
            Some(wait) if wait <= left => world.pass(wait),
            _ => {
                world.pass(left);
                return;
            }
        };
    }
}

/// Everything that was put into lines: when, to whom, why and how often it had happened, oldest first.
async fn told(world: &World) -> Vec<(String, String, Occasion, u64)> {
    let mut all = deliveries(world).await;
    all.reverse();
    let line = |it: Delivery| {
        let clock = it.created_at.to_string()[11..19].to_owned();
        (clock, it.channel.to_string(), it.message.occasion, it.message.count)
    };
    all.into_iter().map(line).collect()
}

async fn deliveries(world: &World) -> Vec<Delivery> {
    world.store().deliveries(&DeliveryFilter::default(), None, ALL).await.expect("deliveries can be read").items
}

pub(super) async fn alerts(world: &World) -> Vec<Alert> {
    world.store().alerts(&AlertFilter::default(), None, ALL).await.expect("alerts can be read").items
}

fn line(clock: &str, channel: &str, occasion: Occasion, count: u64) -> (String, String, Occasion, u64) {
    (clock.to_owned(), channel.to_owned(), occasion, count)
}

/// A job that fails for good at once.
pub(super) async fn fail_a_job(world: &World, lease: Lease, error: &str) {
    let id = world.enqueue(NewJob { retry: RetryPolicy::none(), ..job() }).await;
    world.claim_one(lease).await;
    let end = FinishedRun::failed(id, ErrorCode::TargetError, error);
    world.store().finish_runs_if_leased(lease, vec![end]).await.expect("the end is stored");
}

/// Fires the next slot of the only schedule, and ends its run in this way.
async fn next_slot(world: &World, lease: Lease, fails: bool) {
    world.fire().await;
    let id = world.claim_one(lease).await;
    if fails {
        world.fail(lease, id).await;
    } else {
        world.complete(lease, id).await;
    }
}

pub async fn n01_a_channel_is_kept_edited_by_version_and_deleted_when_no_rule_needs_it(world: &mut World) {
    let store = world.store();
    let made = store.create_channel(chat("ops")).await.expect("it is made");
    assert_eq!((made.version, &made.definition), (1, &chat("ops")));
    let taken = store.create_channel(ping("ops")).await;
    assert_eq!(taken, Err(StoreError::NameTaken { what: "channel", name: "ops".to_owned() }));
    let off = ChannelDefinition { enabled: false, description: "the night shift".to_owned(), ..chat("ops") };
    let stale = store.update_channel_if_version("ops", 7, off.clone()).await;
    assert_eq!(stale, Err(StoreError::VersionConflict { expected: 7, found: 1 }));
    let edited = store.update_channel_if_version("ops", 1, off.clone()).await.expect("it is edited");
    assert_eq!((edited.version, &edited.definition), (2, &off));
    refusal(store.update_channel_if_version("ops", 2, chat("other")).await);
    refusal(store.test_channel("ops").await);
    assert_eq!(store.channel("ops").await, Ok(Some(edited)));
    add_channel(world, ping("alive")).await;
    let names = |page: Vec<_>| {
        page.into_iter()
            .map(|it: punctual_core::notify::channel::Channel| it.definition.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(world.store().channels(None, 10).await.expect("a page")), ["alive", "ops"]);
    assert_eq!(names(world.store().channels(Some("alive"), 10).await.expect("a page")), ["ops"]);
    add_rule(world, rule("failures", Trigger::Failure, "ops")).await;
    let needed = world.store().delete_channel("ops").await;
    assert_eq!(
        needed,
        Err(StoreError::InUse { what: "channel", name: "ops".to_owned(), by: vec!["failures".to_owned()] })
    );
    world.store().delete_rule("failures").await.expect("the rule is deleted");
    world.store().delete_channel("ops").await.expect("and now the channel");
    assert_not_found(world.store().delete_channel("ops").await, "channel");
    assert_not_found(world.store().test_channel("ops").await, "channel");
}

pub async fn n02_a_rule_is_kept_with_channels_that_are_there_and_fit(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_channel(world, ping("alive")).await;
    let store = world.store();
    refusal(store.create_rule(rule("r", Trigger::Failure, "nowhere")).await);
    refusal(store.create_rule(rule("r", Trigger::Failure, "alive")).await);
    refusal(store.create_rule(rule("r", Trigger::FailuresInARow, "ops")).await);
    let made = store.create_rule(rule("r", Trigger::Failure, "ops")).await.expect("it is made");
    assert_eq!((made.version, &made.definition), (1, &rule("r", Trigger::Failure, "ops")));
    let taken = store.create_rule(rule("r", Trigger::NodeLost, "ops")).await;
    assert_eq!(taken, Err(StoreError::NameTaken { what: "rule", name: "r".to_owned() }));
    let other = rule("r", Trigger::NodeLost, "ops");
    let stale = store.update_rule_if_version("r", 3, other.clone()).await;
    assert_eq!(stale, Err(StoreError::VersionConflict { expected: 3, found: 1 }));
    refusal(store.update_rule_if_version("r", 1, rule("r", Trigger::Failure, "nowhere")).await);
    let edited = store.update_rule_if_version("r", 1, other).await.expect("it is edited");
    assert_eq!((edited.version, edited.definition.on), (2, Trigger::NodeLost));
    assert_eq!(store.rules(None, 10).await, Ok(vec![edited.clone()]));
    assert_eq!(store.rule("r").await, Ok(Some(edited)));
    store.delete_rule("r").await.expect("it is deleted");
    assert_not_found(store.delete_rule("r").await, "rule");
    assert_eq!(store.rule("r").await, Ok(None));
}

pub async fn n02_failures_of_one_cause_are_one_alert_and_one_message(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_rule(world, rule("failures", Trigger::Failure, "ops")).await;
    let lease = world.node("a").await;
    for number in 0..30 {
        fail_a_job(world, lease, &format!("cannot reach host-{number}")).await;
    }
    fail_a_job(world, lease, "disk full").await;
    let judged = judge(world, lease).await;
    assert_eq!((judged.notices, judged.opened, judged.messages), (31, 2, 0), "more of the same is waited for");
    assert_eq!(judge(world, lease).await.notices, 0, "each notice is taken in once");
    let_pass(world, lease, mins(1)).await;
    let told = told(world).await;
    let opened = |count| line("00:00:01", "ops", Occasion::Opened, count);
    assert_eq!(told, [opened(30), opened(1)]);
    let first = deliveries(world).await.pop().expect("a delivery");
    assert_eq!(first.message.error_code, Some(ErrorCode::TargetError));
    assert_eq!(
        (first.message.subjects_total, first.message.subjects[0].name.as_str()),
        (1, "task:work jobs in default")
    );
}

pub async fn n04_news_is_taken_in_with_all_that_comes_of_it_or_not_at_all(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_rule(world, rule("failures", Trigger::Failure, "ops")).await;
    let lease = world.node("a").await;
    fail_a_job(world, lease, "it broke").await;
    world.faults.refuse_commits(true).await;
    assert!(world.store().judge_news_if_leased(lease, ALL, None).await.is_err());
    world.faults.refuse_commits(false).await;
    assert_eq!(alerts(world).await, []);
    assert_eq!(judge(world, lease).await.notices, 1);
    assert_eq!(alerts(world).await[0].count, 1, "it was not counted twice");
    let refused = world.store().judge_news_if_leased(foreign_lease(), ALL, None).await;
    fail_a_job(world, lease, "it broke").await;
    let with_news = world.store().judge_news_if_leased(foreign_lease(), ALL, None).await;
    assert_eq!((refused.map(|judged| judged.notices), with_news), (Ok(0), Err(StoreError::LostLease)));
    let limited = world.store().judge_news_if_leased(lease, 1, None).await.expect("one notice is taken in");
    assert!(limited.more, "there may be more than were asked for");
}

/// A rule that tells one after the other, and then the last one again and again.
async fn add_nightly(world: &World) {
    for channel in ["slack", "mail", "pager"] {
        add_channel(world, chat(channel)).await;
    }
    let nightly = RuleDefinition {
        wait: mins(1),
        steps: serde_json::from_str(
            r#"[{"channels":["slack"]},{"channels":["mail"],"after":"15m"},{"channels":["pager"],"after":"1h"}]"#,
        )
        .expect("steps"),
        repeat_every: Some(SignedDuration::from_hours(2)),
        ..rule("nightly", Trigger::Failure, "slack")
    };
    add_rule(world, nightly).await;
}

pub async fn n03_b11_a_night_of_escalation_goes_as_the_rule_says(world: &mut World) {
    add_nightly(world).await;
    world.create(ScheduleDefinition { retry: no_retry(), ..hourly("backup") }).await;
    let lease = world.node("a").await;
    world.pass(mins(60));
    // The first night nobody answers.
    for _ in 0..4 {
        next_slot(world, lease, true).await;
        let_pass(world, lease, mins(60)).await;
    }
    next_slot(world, lease, false).await;
    let_pass(world, lease, mins(60)).await;
    let silent = told(world).await;
    assert_eq!(
        silent,
        [
            line("01:01:00", "slack", Occasion::Opened, 1),
            line("01:16:00", "mail", Occasion::Escalated, 1),
            line("02:01:00", "pager", Occasion::Escalated, 2),
            line("04:01:00", "pager", Occasion::Reminder, 4),
            line("05:00:00", "mail", Occasion::Recovered, 4),
            line("05:00:00", "pager", Occasion::Recovered, 4),
            line("05:00:00", "slack", Occasion::Recovered, 4),
        ]
    );
    // The second time somebody takes care of it.
    next_slot(world, lease, true).await;
    let_pass(world, lease, mins(20)).await;
    let open = AlertFilter { open: Some(true), rule: Some("nightly".to_owned()) };
    let alert = world.store().alerts(&open, None, ALL).await.expect("alerts").items.pop().expect("it is open");
    let by_code = world.store().alert_by_code(&alert.code).await.expect("it can be found").expect("it is there");
    assert_eq!(by_code.id, alert.id);
    let store = world.store();
    let taken = store.acknowledge_alert(alert.id, Some("ann".to_owned()), Some("on it".to_owned())).await;
    let taken = taken.expect("it is acknowledged").acknowledged.expect("by somebody");
    assert_eq!((taken.by.as_deref(), taken.at), (Some("ann"), world.clock_now()));
    let again = store.acknowledge_alert(alert.id, Some("bob".to_owned()), None).await.expect("it is harmless");
    assert_eq!(again.acknowledged, Some(taken), "the first one stands");
    let_pass(world, lease, mins(40)).await;
    next_slot(world, lease, true).await;
    let_pass(world, lease, mins(60)).await;
    next_slot(world, lease, false).await;
    let_pass(world, lease, mins(1)).await;
    assert_eq!(
        told(world).await[silent.len()..],
        [
            line("06:01:00", "slack", Occasion::Opened, 1),
            line("06:16:00", "mail", Occasion::Escalated, 1),
            line("08:00:00", "mail", Occasion::Recovered, 2),
            line("08:00:00", "slack", Occasion::Recovered, 2),
        ]
    );
    let closed = world.store().alerts(&AlertFilter { open: Some(false), rule: None }, None, 1).await.expect("a page");
    assert_eq!(
        (closed.items.len(), closed.items[0].id, closed.next),
        (1, alert.id, Some(alert.id)),
        "the latest first"
    );
    let before = world.store().alerts(&AlertFilter::default(), closed.next, 5).await.expect("a page");
    assert_eq!((before.items.len(), before.next), (1, None));
}

pub async fn n03_what_is_not_there_cannot_be_acknowledged(world: &mut World) {
    assert_not_found(world.store().acknowledge_alert(AlertId(nobody()), None, None).await, "alert");
    refusal(world.store().acknowledge_alert(AlertId(nobody()), Some("a\0b".to_owned()), None).await);
    assert_eq!(world.store().alert_by_code("nobody knows").await, Ok(None));
    assert_eq!(world.store().alert_by_code("a\0b").await, Ok(None));
    assert_eq!(world.store().alert(AlertId(nobody())).await, Ok(None));
}

pub async fn n02_a_rule_that_is_deleted_or_off_takes_its_alerts_with_it(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_rule(world, rule("deleted", Trigger::Failure, "ops")).await;
    add_rule(world, rule("off", Trigger::Failure, "ops")).await;
    let lease = world.node("a").await;
    fail_a_job(world, lease, "it broke").await;
    assert_eq!(judge(world, lease).await.opened, 2);
    world.store().delete_rule("deleted").await.expect("it is deleted");
    let off = RuleDefinition { enabled: false, ..rule("off", Trigger::Failure, "ops") };
    world.store().update_rule_if_version("off", 1, off).await.expect("it is turned off");
    let_pass(world, lease, mins(5)).await;
    assert_eq!(told(world).await, []);
    assert!(alerts(world).await.iter().all(|alert| alert.closed_at.is_some()));
}

/// Who is in trouble by one rule, of the alerts that are open.
async fn in_trouble(world: &World, rule: &str) -> Vec<String> {
    let open = AlertFilter { open: Some(true), rule: Some(rule.to_owned()) };
    let alerts = world.store().alerts(&open, None, ALL).await.expect("alerts can be read").items;
    let members = alerts.into_iter().flat_map(|alert| alert.members.into_values());
    members.filter(|member| member.recovered_at.is_none()).map(|member| member.subject.name).collect()
}

/// A rule on something that lasts.
async fn add_lasting(world: &World, name: &str, on: Trigger, after: SignedDuration) {
    add_rule(world, RuleDefinition { after: Some(after), ..rule(name, on, "ops") }).await;
}

pub async fn n02_late_starts_and_long_runs_are_found_while_they_last_and_after(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_lasting(world, "late", Trigger::LateStart, mins(2)).await;
    add_lasting(world, "long", Trigger::LongRun, mins(10)).await;
    world.create(ScheduleDefinition { retry: no_retry(), ..hourly("report") }).await;
    let lease = world.node("a").await;
    world.pass(mins(60));
    let id = world.fire_one().await;
    let_pass(world, lease, secs(100)).await;
    assert_eq!(in_trouble(world, "late").await, Vec::<String>::new());
    let_pass(world, lease, secs(60)).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "late").await, ["report"], "it waits");
    world.claim_one(lease).await;
    let_pass(world, lease, mins(9)).await;
    assert_eq!(in_trouble(world, "late").await, ["report"], "it began late");
    assert_eq!(in_trouble(world, "long").await, Vec::<String>::new());
    let_pass(world, lease, mins(2)).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "long").await, ["report"], "it takes long");
    world.complete(lease, id).await;
    let_pass(world, lease, mins(1)).await;
    judge(world, lease).await;
    assert_eq!((in_trouble(world, "late").await, in_trouble(world, "long").await), (vec![], vec![]));
    let told = told(world).await;
    let of = |occasion| told.iter().filter(|line| line.2 == occasion).count();
    assert_eq!((of(Occasion::Opened), of(Occasion::Recovered)), (2, 1), "{told:?}");
    // What began late and ended between two looks is found by its record.
    world.pass(mins(60));
    let slow = world.fire_one().await;
    world.pass(mins(3));
    world.claim_one(lease).await;
    world.complete(lease, slow).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "late").await, ["report"]);
}

pub async fn n02_what_no_node_can_run_and_queues_that_are_too_old_are_found(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_lasting(world, "nobody", Trigger::NoExecutor, mins(1)).await;
    add_lasting(world, "old", Trigger::QueueTooOld, mins(5)).await;
    let lease = world.node("a").await;
    let odd = NewJob { target: punctual_core::target::Target::task("odd"), ..job() };
    world.enqueue(odd).await;
    world.enqueue(NewJob { queue: "mail".to_owned(), ..job() }).await;
    let_pass(world, lease, mins(2)).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "nobody").await, ["task:odd jobs in default"]);
    assert_eq!(in_trouble(world, "old").await, Vec::<String>::new());
    let_pass(world, lease, mins(4)).await;
    judge(world, lease).await;
    let mut old = in_trouble(world, "old").await;
    old.sort_unstable();
    assert_eq!(old, ["default", "mail"]);
    let one = world.claim_one(lease).await;
    world.complete(lease, one).await;
    let_pass(world, lease, mins(1)).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "old").await, ["default"]);
}

pub async fn n02_an_overdue_schedule_is_found_and_the_dead_mans_switch_hears_nothing_meanwhile(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_channel(world, ping("alive")).await;
    add_lasting(world, "overdue", Trigger::Overdue, mins(2)).await;
    let well = RuleDefinition { every: Some(mins(1)), ..rule("well", Trigger::AllWell, "alive") };
    add_rule(world, well).await;
    let schedule = world.create(hourly("report")).await;
    let lease = world.node("a").await;
    let_pass(world, lease, mins(60) + secs(30)).await;
    assert_eq!(world.store().overdue_schedules(mins(1), 10).await, Ok(Vec::new()));
    let_pass(world, lease, mins(3)).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "overdue").await, ["report"]);
    let overdue = world.store().overdue_schedules(mins(1), 10).await.expect("they can be read");
    assert_eq!((overdue.len(), overdue[0].id, overdue[0].due_at), (1, schedule.id, clock_time("01:00:00")));
    let pings =
        |lines: &[(String, String, Occasion, u64)]| lines.iter().filter(|line| line.2 == Occasion::Well).count();
    let before = told(world).await;
    assert_eq!(pings(&before), 1, "the first waits until it is sent, and no second is needed");
    world.fire().await;
    let_pass(world, lease, mins(1)).await;
    judge(world, lease).await;
    assert_eq!(in_trouble(world, "overdue").await, Vec::<String>::new());
}

pub async fn n02_lost_nodes_missed_slots_jumps_of_the_clock_and_recoveries_are_alerts(world: &mut World) {
    add_channel(world, chat("ops")).await;
    for (name, on) in [
        ("lost", Trigger::NodeLost),
        ("missed", Trigger::MissedSlots),
        ("jumped", Trigger::ClockJumped),
        ("recovered", Trigger::Recovery),
    ] {
        add_rule(world, rule(name, on, "ops")).await;
    }
    let (gone, lease) = (world.node("gone").await, world.node("here").await);
    world.recover(gone).await;
    world.create(ScheduleDefinition { retry: no_retry(), ..minutely("report") }).await;
    world.pass(mins(5) + secs(30));
    next_slot(world, lease, true).await;
    world.pass(mins(1));
    next_slot(world, lease, false).await;
    world.store().tell_clock_jumped_if_leased(lease, secs(-90)).await.expect("it is told");
    let refused = world.store().tell_clock_jumped_if_leased(foreign_lease(), secs(1)).await;
    assert_eq!(refused, Err(StoreError::LostLease));
    let_pass(world, lease, mins(1)).await;
    let mut found: Vec<(String, String, u64, Option<String>)> = Vec::new();
    for alert in alerts(world).await {
        let subject = alert.members.values().next().expect("a member").subject.name.clone();
        found.push((alert.rule.to_string(), subject, alert.count, alert.detail));
    }
    found.sort_unstable();
    let expected = [
        ("jumped", "database", 1, Some("1m30s back")),
        ("lost", "gone", 1, None),
        ("missed", "report", 4, Some("2026-03-01T00:01:00Z to 2026-03-01T00:04:00Z")),
        ("recovered", "report", 1, None),
    ];
    let expected = expected
        .map(|(rule, subject, count, detail)| (rule.to_owned(), subject.to_owned(), count, detail.map(str::to_owned)));
    assert_eq!(found, expected);
    assert_eq!(told(world).await.len(), 4);
}

pub async fn n04_old_alerts_and_deliveries_are_forgotten_when_they_are_over(world: &mut World) {
    add_channel(world, chat("ops")).await;
    add_rule(world, rule("failures", Trigger::Failure, "ops")).await;
    let lease = world.node("a").await;
    fail_a_job(world, lease, "it broke").await;
    let_pass(world, lease, mins(90)).await;
    let (alert, delivery) =
        (alerts(world).await.pop().expect("an alert"), deliveries(world).await.pop().expect("a delivery"));
    assert!(alert.closed_at.is_some(), "nothing was heard of it for an hour");
    let prune = || async {
        let before = Retention::before(world.clock_now(), ALL);
        world.store().prune_history(before).await.expect("history can be pruned");
        (alerts(world).await.len(), deliveries(world).await.len())
    };
    assert_eq!(prune().await, (0, 1), "what has not arrived is kept");
    world.store().drop_delivery(delivery.id).await.expect("it is dropped");
    assert_eq!(prune().await, (0, 0));
}
