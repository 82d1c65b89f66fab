//! The book of alerts: whole nights as tables of times and recipients, and laws that hold for every night.

use super::super::event::{Place, Subject};
use super::super::message::Occasion;
use super::super::rule::Step;
use super::*;
use proptest::prelude::*;

#[derive(Default)]
struct Numbers(u8);

impl NewAlerts for Numbers {
    fn alert_id(&mut self) -> AlertId {
        self.0 += 1;
        AlertId::from_bytes([self.0; 16])
    }

    fn code(&mut self) -> String {
        format!("code-{}", self.0)
    }
}

/// A book that is closed and opened again at every step, as the stores do.
struct Night {
    rules: Vec<(RuleDefinition, RuleState)>,
    alerts: Vec<Alert>,
    numbers: Numbers,
    told: Vec<String>,
    messages: Vec<Outgoing>,
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A time of the night from 17 January on.
fn at(clock: &str) -> Timestamp {
    let day = if clock < "12" { 18 } else { 17 };
    format!("2026-01-{day}T{clock}Z").parse().expect("a time")
}

fn rule(text: &str) -> RuleDefinition {
    let rule: RuleDefinition = serde_json::from_str(text).expect("a rule");
    rule.validate().expect("a rule that makes sense");
    rule
}

fn schedule(text: &str) -> Subject {
    Subject { kind: SubjectKind::Schedule, key: text.to_owned(), name: text.to_owned() }
}

fn event(happening: Happening, subject: Subject, at: Timestamp) -> Event {
    let place = Place { schedule: Some(subject.name.clone()), ..Place::default() };
    let (error_code, error) = match happening {
        Happening::Failed => (Some(ErrorCode::TargetError), Some("it broke".to_owned())),
        _ => (None, None),
    };
    Event { happening, at, subject, place, job_id: None, error_code, error, detail: None }
}

impl Night {
    fn new(rules: &[&str]) -> Self {
        let rules = rules.iter().map(|text| (rule(text), RuleState::default())).collect();
        Self { rules, alerts: Vec::new(), numbers: Numbers::default(), told: Vec::new(), messages: Vec::new() }
    }

    fn with(&mut self, clock: &str, work: impl FnOnce(&mut AlertBook, &mut Numbers, Timestamp)) {
        self.with_at(at(clock), None, work);
    }

    fn with_at(
        &mut self, now: Timestamp, well: Option<bool>, work: impl FnOnce(&mut AlertBook, &mut Numbers, Timestamp),
    ) {
        let mut book = AlertBook::open(self.rules.clone(), self.alerts.clone());
        work(&mut book, &mut self.numbers, now);
        book.advance(now, well);
        let written = book.close();
        for alert in written.alerts {
            // As the stores keep it.
            let kept = serde_json::to_string(&alert).expect("it can be written");
            let alert: Alert = serde_json::from_str(&kept).expect("it can be read");
            self.alerts.retain(|known| known.id != alert.id);
            self.alerts.push(alert);
        }
        for (name, state) in written.rules {
            let rule = self.rules.iter_mut().find(|(rule, _)| rule.name == name).expect("a rule");
            rule.1 = state;
        }
        for Outgoing { channel, message } in &written.outgoing {
            let clock = now.to_string();
            let clock = &clock[11..16];
            self.told.push(format!("{clock} {channel} {} x{}", message.occasion, message.count));
        }
        self.messages.extend(written.outgoing);
    }

    fn fails(&mut self, clock: &str, who: &str) {
        self.with(clock, |book, new, now| book.hear(&event(Happening::Failed, schedule(who), now), new));
    }

    fn recovers(&mut self, clock: &str, who: &str) {
        self.with(clock, |book, new, now| book.hear(&event(Happening::Recovered, schedule(who), now), new));
    }

    /// Lets the time pass up to a minute, waking only when something is due.
    fn until(&mut self, clock: &str) {
        loop {
            let book = AlertBook::open(self.rules.clone(), self.alerts.clone());
            match book.due_at() {
                Some(due) if due <= at(clock) => self.with_at(due, None, |_, _, _| {}),
                _ => return,
            }
        }
    }

    fn table(&self) -> Vec<&str> {
        self.told.iter().map(String::as_str).collect()
    }

    fn open(&self) -> usize {
        self.alerts.iter().filter(|alert| alert.closed_at.is_none()).count()
    }
}

const ESCALATES: &str = r#"{"name":"nightly","on":"failure","wait":"1m",
    "steps":[{"channels":["slack"]},{"channels":["mail"],"after":"15m"},{"channels":["pager"],"after":"1h"}],
    "repeat_every":"2h"}"#;

#[test]
fn n03_b11_a_night_without_an_answer_escalates_to_the_last_step_and_ends_with_the_recovery() {
    let mut night = Night::new(&[ESCALATES]);
    night.fails("22:00:00", "backup");
    night.until("22:30:00");
    night.fails("22:30:00", "backup");
    night.until("03:59:00");
    night.recovers("04:00:00", "backup");
    night.until("11:00:00");
    assert_eq!(
        night.table(),
        [
            "22:01 slack opened x1",
            "22:16 mail escalated x1",
            "23:01 pager escalated x2",
            "01:01 pager reminder x2",
            "03:01 pager reminder x2",
            "04:00 mail recovered x2",
            "04:00 pager recovered x2",
            "04:00 slack recovered x2",
        ]
    );
    assert_eq!(night.open(), 0);
}

#[test]
fn n03_whoever_acknowledges_ends_the_escalation_and_still_hears_of_the_end() {
    let mut night = Night::new(&[ESCALATES]);
    night.fails("22:00:00", "backup");
    night.until("22:20:00");
    night.alerts[0].acknowledge(at("22:20:00"), Some("ann".to_owned()), None);
    night.alerts[0].acknowledge(at("22:21:00"), Some("bob".to_owned()), None);
    night.fails("23:00:00", "backup");
    night.until("05:00:00");
    night.recovers("05:00:00", "backup");
    let heard =
        ["22:01 slack opened x1", "22:16 mail escalated x1", "05:00 mail recovered x2", "05:00 slack recovered x2"];
    assert_eq!(night.table(), heard);
    let acknowledged = night.alerts[0].acknowledged.as_ref().expect("somebody did");
    assert_eq!(acknowledged.by.as_deref(), Some("ann"), "the first one stands");
}

#[test]
fn n03_a_step_may_be_reached_by_failures_in_a_row() {
    let mut night = Night::new(&[r#"{"name":"r","on":"failures_in_a_row","failures":2,"wait":"1s",
        "steps":[{"channels":["slack"]},{"channels":["mail"],"failures":4}]}"#]);
    for minute in [0, 10, 20, 30] {
        night.fails(&format!("20:{minute:02}:00"), "sync");
        night.until(&format!("20:{minute:02}:01"));
    }
    night.until("21:00:00");
    assert_eq!(night.table(), ["20:10 slack opened x2", "20:30 mail escalated x4"]);
    night.recovers("21:00:00", "sync");
    night.fails("21:10:00", "sync");
    night.until("22:00:00");
    assert_eq!(
        night.table()[2..],
        ["21:00 mail recovered x4", "21:00 slack recovered x4"],
        "after a success it is counted from the beginning"
    );
}

#[test]
fn n02_nobody_is_told_in_quiet_hours_and_nothing_is_lost() {
    let quiet = r#"{"name":"r","on":"failure","wait":"1s","quiet":{"from":"22:00","until":"07:00"},
        "steps":[{"channels":["slack"]},{"channels":["mail"],"after":"30m"}]}"#;
    let mut night = Night::new(&[quiet]);
    night.fails("23:00:00", "a");
    night.fails("01:00:00", "a");
    night.until("11:00:00");
    assert_eq!(
        night.table(),
        ["07:00 slack opened x2", "07:30 mail escalated x2"],
        "the steps are counted from the first"
    );
    let mut night = Night::new(&[quiet]);
    night.fails("23:00:00", "a");
    night.recovers("01:00:00", "a");
    night.until("11:00:00");
    assert_eq!(night.table(), ["07:00 slack opened x1"], "what was over by then is told once, with its end");
    assert!(night.alerts[0].recovered_at.is_some() && night.open() == 0);
}

#[test]
fn n02_failures_of_one_cause_are_one_message_and_those_of_another_are_another() {
    let mut night = Night::new(&[r#"{"name":"r","on":"failure","wait":"1m","steps":[{"channels":["slack"]}]}"#]);
    night.with("20:00:00", |book, new, now| {
        for number in 0..500 {
            let mut failed = event(Happening::Failed, schedule(&format!("s{number}")), now);
            failed.error = Some(format!("cannot reach host-{number}"));
            book.hear(&failed, new);
        }
        let mut other = event(Happening::Failed, schedule("s1"), now);
        other.error = Some("disk full".to_owned());
        book.hear(&other, new);
    });
    night.until("20:30:00");
    assert_eq!(night.table(), ["20:01 slack opened x500", "20:01 slack opened x1"]);
    for number in 0..499 {
        night.recovers("20:30:00", &format!("s{number}"));
    }
    assert_eq!(night.told.len(), 3, "the one with two alerts is out of both, and the other goes on");
    night.recovers("20:31:00", "s499");
    assert_eq!(night.table()[2..], ["20:30 slack recovered x1", "20:31 slack recovered x500"]);
}

#[test]
fn n02_who_was_told_hears_within_minutes_that_more_has_joined() {
    let mut night = Night::new(&[r#"{"name":"r","on":"failure","wait":"1s","steps":[{"channels":["slack"]}]}"#]);
    night.fails("20:00:00", "a");
    night.until("20:00:30");
    for who in ["b", "c", "d"] {
        night.fails("20:01:00", who);
    }
    night.until("20:59:00");
    assert_eq!(night.table(), ["20:00 slack opened x1", "20:05 slack reminder x4"]);
}

#[test]
fn n02_scopes_by_schedule_label_and_queue() {
    let of = |scope: &str| {
        format!(r#"{{"name":"{scope}","on":"failure","wait":"1s","scope":{{{scope}}},"steps":[{{"channels":["c"]}}]}}"#)
            .replace(&format!("\"name\":\"{scope}\""), &format!("\"name\":\"{}\"", scope.replace('"', "'")))
    };
    let rules = [r#""schedule":"a""#, r#""label":"team""#, r#""label":"team=x""#, r#""queue":"q""#, ""].map(of);
    let rules: Vec<String> = rules.into_iter().map(|rule| rule.replace(r#""name":"""#, r#""name":"all""#)).collect();
    let mut night = Night::new(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    night.with("20:00:00", |book, new, now| {
        let mut failed = event(Happening::Failed, schedule("b"), now);
        failed.place.labels = [("team".to_owned(), "y".to_owned())].into();
        failed.place.queue = Some("q".to_owned());
        book.hear(&failed, new);
    });
    let mut hit: Vec<&str> = night.alerts.iter().map(|alert| alert.rule.as_str()).collect();
    hit.sort_unstable();
    assert_eq!(hit, ["'label':'team'", "'queue':'q'", "all"]);
}

#[test]
fn n02_what_is_found_is_told_once_and_is_over_when_it_is_not_found() {
    let mut night =
        Night::new(&[r#"{"name":"r","on":"queue_too_old","after":"5m","wait":"1s","steps":[{"channels":["c"]}]}"#]);
    let finding = |minutes| Finding {
        trigger: Trigger::QueueTooOld,
        subject: Subject { kind: SubjectKind::Queue, key: "mail".to_owned(), name: "mail".to_owned() },
        place: Place { queue: Some("mail".to_owned()), ..Place::default() },
        lasted: SignedDuration::from_mins(minutes),
        job_id: None,
    };
    night.with("20:00:00", |book, new, now| book.find(&[finding(4)], now, new));
    assert_eq!(night.alerts.len(), 0, "it has not lasted long enough");
    for (clock, minutes) in [("20:01:00", 5), ("20:02:00", 6), ("20:03:00", 7)] {
        night.with(clock, |book, new, now| book.find(&[finding(minutes)], now, new));
    }
    night.with("20:04:00", |book, new, now| book.find(&[], now, new));
    assert_eq!(night.table(), ["20:02 c opened x1", "20:04 c recovered x1"]);
    assert_eq!(night.open(), 0);
}

#[test]
fn n02_a_dead_mans_switch_is_told_while_all_is_well_and_not_otherwise() {
    let mut night = Night::new(&[r#"{"name":"r","on":"all_well","every":"5m","steps":[{"channels":["hc"]}]}"#]);
    for (clock, well) in
        [("20:00:00", true), ("20:04:00", true), ("20:05:00", true), ("20:10:00", false), ("20:12:00", true)]
    {
        night.with_at(at(clock), Some(well), |_, _, _| {});
    }
    assert_eq!(night.table(), ["20:00 hc well x0", "20:05 hc well x0", "20:12 hc well x0"]);
}

#[test]
fn n03_an_alert_waits_for_its_last_step_and_is_over_an_hour_after_it() {
    let lost = |clock, night: &mut Night| {
        let node = Subject { kind: SubjectKind::Node, key: "n".to_owned(), name: "n".to_owned() };
        night.with(clock, |book, new, now| book.hear(&event(Happening::NodeLost, node, now), new));
    };
    let mut night = Night::new(&[r#"{"name":"r","on":"node_lost","wait":"1s",
        "steps":[{"channels":["slack"]},{"channels":["mail"],"after":"2h"}]}"#]);
    lost("20:00:00", &mut night);
    night.until("22:59:00");
    assert_eq!(night.table(), ["20:00 slack opened x1", "22:00 mail escalated x1"]);
    assert_eq!(night.open(), 1);
    night.until("23:01:00");
    assert_eq!(night.open(), 0);
    // Reminders alone keep nothing alive.
    let mut night = Night::new(&[r#"{"name":"r","on":"node_lost","wait":"1s","repeat_every":"25m",
        "steps":[{"channels":["slack"]}]}"#]);
    lost("20:00:00", &mut night);
    night.until("23:00:00");
    assert_eq!(night.table(), ["20:00 slack opened x1", "20:25 slack reminder x1", "20:50 slack reminder x1"]);
    assert_eq!(night.open(), 0);
}

#[test]
fn n02_a_look_goes_back_for_minutes_and_not_through_all_that_ever_ended() {
    let rules = vec![(rule(r#"{"name":"r","on":"long_run","steps":[{"channels":["c"]}]}"#), RuleState::default())];
    let since = |through: Timestamp| {
        let book = AlertBook::open(rules.clone(), Vec::new());
        let last_look = LastLook { at: Timestamp::UNIX_EPOCH, through };
        let passed = pass(book, &[], None, last_look, at("20:00:00"), &mut Numbers::default());
        passed.look.expect("somebody has to look").since
    };
    assert_eq!(since(Timestamp::UNIX_EPOCH), at("19:58:00"));
    assert_eq!(since(at("19:59:45")), at("19:59:45"));
}

#[test]
fn n02_a_rule_that_is_gone_takes_its_alerts_with_it() {
    let mut night = Night::new(&[ESCALATES]);
    night.fails("22:00:00", "backup");
    night.rules[0].0.enabled = false;
    night.with("22:30:00", |_, _, _| {});
    assert_eq!((night.open(), night.told.len()), (0, 0));
}

#[test]
fn n02_more_causes_than_anybody_can_read_share_one_alert() {
    let mut night = Night::new(&[ESCALATES]);
    night.with("22:00:00", |book, new, now| {
        for number in 0..250_u32 {
            let mut failed = event(Happening::Failed, schedule("a"), now);
            // Letters, because numbers do not make another cause.
            let letter = |by: u32| char::from_u32('a' as u32 + number / by % 26).unwrap_or('a');
            failed.error = Some(format!("{}{}", letter(26), letter(1)));
            book.hear(&failed, new);
        }
    });
    assert_eq!(night.open(), OPEN_MAX + 1);
    assert_eq!(night.alerts.iter().map(|alert| alert.count).sum::<u64>(), 250);
    assert!(night.alerts.iter().any(|alert| alert.key == REST));
}

proptest! {
    /// Whatever fails and recovers, and when: what is opened is told to the first step once, the steps come in order, no
    /// step is told after an acknowledgement or an end, and who was told hears of the end.
    #[test]
    fn n03_steps_come_in_order_once_and_stop(
        moves in proptest::collection::vec((0_u8..3, 0_u8..4, 1_i64..2000), 1..40),
    ) {
        let mut rule: RuleDefinition = rule(ESCALATES);
        rule.steps.push(Step { channels: vec![name("boss")], after: Some(SignedDuration::from_hours(3)), failures: Some(5) });
        let mut night = Night::new(&[]);
        night.rules.push((rule, RuleState::default()));
        let mut now = at("20:00:00");
        for (act, who, wait) in moves {
            let happening = if act == 0 { Happening::Recovered } else { Happening::Failed };
            night.with_at(now, None, |book, new, now| book.hear(&event(happening, schedule(&who.to_string()), now), new));
            if act == 2 && let Some(alert) = night.alerts.iter_mut().find(|alert| alert.closed_at.is_none()) {
                alert.acknowledge(now, None, None);
            }
            now += SignedDuration::from_secs(wait);
            loop {
                let due = AlertBook::open(night.rules.clone(), night.alerts.clone()).due_at();
                match due {
                    Some(due) if due <= now => night.with_at(due, None, |_, _, _| {}),
                    _ => break,
                }
            }
        }
        let order = ["slack opened", "mail escalated", "pager escalated", "boss escalated"];
        let steps = night.told.iter().filter(|line| line.contains("opened") || line.contains("escalated"));
        let mut next = 0;
        for line in steps {
            let step = order.iter().position(|step| line.contains(step)).expect("a step");
            prop_assert!(step == next || step == 0, "{line} after step {next}");
            next = step + 1;
        }
        for alert in &night.alerts {
            let members: u64 = alert.members.values().map(|member| member.count).sum();
            prop_assert_eq!(members, alert.count);
            prop_assert!(alert.closed_at.is_none() || !alert.told.is_empty());
        }
        for alert in &night.alerts {
            let of_it = |occasion| {
                let own = night.messages.iter().filter(move |it| it.message.alert_id == Some(alert.id));
                own.filter(move |it| it.message.occasion == occasion)
            };
            if let Some(acknowledged) = &alert.acknowledged {
                prop_assert!(of_it(Occasion::Escalated).all(|it| it.message.at <= acknowledged.at));
            }
            // Who heard of the end first with the beginning does not hear of it again.
            let heard_before = of_it(Occasion::Opened).any(|it| it.message.recovered_at.is_none());
            let ended = alert.closed_at.is_some() && alert.recovered_at.is_some() && heard_before;
            let told: BTreeSet<Name> = of_it(Occasion::Recovered).map(|it| it.channel.clone()).collect();
            prop_assert_eq!(told, if ended { alert.told.clone() } else { BTreeSet::new() });
        }
    }
}
