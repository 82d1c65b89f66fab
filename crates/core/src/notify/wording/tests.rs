//! Every occasion of every trigger in words, and hostile names that stay text.

use super::*;
use crate::id::{AlertId, JobId};
use crate::name::Name;
use crate::run::ErrorCode;
use proptest::prelude::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn subject(kind: SubjectKind, name: &str) -> Subject {
    Subject { kind, key: name.to_owned(), name: name.to_owned() }
}

fn about(trigger: Trigger, subjects: Vec<Subject>) -> Message {
    Message {
        occasion: Occasion::Opened,
        trigger: Some(trigger),
        rule: Some(Name::new("watch").unwrap()),
        alert_id: Some(AlertId::from(uuid::Uuid::from_u128(7))),
        count: 3,
        subjects_total: subjects.len() as u64,
        subjects,
        opened_at: Some(at("2026-01-01T00:00:00Z")),
        acknowledge: Some("c0de".to_owned()),
        ..Message::test(at("2026-01-01T00:00:00Z"))
    }
}

fn nightly(trigger: Trigger) -> Message {
    about(trigger, vec![subject(SubjectKind::Schedule, "nightly-backup")])
}

fn title(message: &Message) -> String {
    message.wording(None).title
}

#[test]
fn n02_each_trigger_is_told_in_one_line() {
    let queue = about(Trigger::QueueTooOld, vec![subject(SubjectKind::Queue, "mail")]);
    let queue = Message { detail: Some("waits for 12m, and 10m are allowed".to_owned()), ..queue };
    let failed = Message { error: Some("\n connection refused\nat line 3".to_owned()), ..nightly(Trigger::Failure) };
    for (message, words) in [
        (failed.clone(), "nightly-backup failed 3 times: connection refused"),
        (Message { count: 1, error: None, ..failed }, "nightly-backup failed"),
        (nightly(Trigger::FailuresInARow), "nightly-backup failed 3 times in a row"),
        (nightly(Trigger::Recovery), "nightly-backup has recovered"),
        (nightly(Trigger::LateStart), "nightly-backup starts late"),
        (nightly(Trigger::MissedSlots), "nightly-backup missed slots"),
        (nightly(Trigger::LongRun), "nightly-backup takes too long"),
        (nightly(Trigger::NoExecutor), "no node can run nightly-backup"),
        (queue, "the oldest job of queue mail has waited too long: waits for 12m, and 10m are allowed"),
        (nightly(Trigger::Overdue), "nightly-backup is overdue, and nobody fires"),
        (about(Trigger::NodeLost, vec![subject(SubjectKind::Node, "a1")]), "node a1 was lost"),
        (about(Trigger::ClockJumped, vec![subject(SubjectKind::Database, "x")]), "the database's clock jumped"),
    ] {
        assert_eq!(title(&message), words);
    }
}

#[test]
fn n02_many_subjects_are_counted_and_the_first_are_named() {
    let three = ["a", "b", "c"].map(|name| subject(SubjectKind::Schedule, name)).to_vec();
    let message = Message {
        subjects_total: 500,
        count: 501,
        error: Some("connection refused".to_owned()),
        ..about(Trigger::Failure, three)
    };
    let words = message.wording(None);
    assert_eq!(words.title, "500 schedules fail: connection refused");
    let fact = |label| words.facts.iter().find(|fact| fact.label == label).map(|fact| fact.text.as_str());
    assert_eq!(fact("Concerns"), Some("a, b, c and 497 more"));
    assert_eq!(fact("Happened"), Some("501 times"));
    let mixed = vec![subject(SubjectKind::Schedule, "a"), subject(SubjectKind::Jobs, "command")];
    assert_eq!(title(&about(Trigger::FailuresInARow, mixed)), "2 things fail again and again");
}

#[test]
fn n03_each_occasion_says_why_it_is_told() {
    let message = nightly(Trigger::FailuresInARow);
    for (occasion, words) in [
        (Occasion::Opened, "nightly-backup failed 3 times in a row"),
        (Occasion::Escalated, "Nobody has acknowledged: nightly-backup failed 3 times in a row"),
        (Occasion::Reminder, "It goes on: nightly-backup failed 3 times in a row"),
        (Occasion::Recovered, "nightly-backup has recovered (3 failures)"),
        (Occasion::Well, "All is well"),
        (Occasion::Test, "This is a test: the channel works"),
    ] {
        assert_eq!(title(&Message { occasion, ..message.clone() }), words);
    }
    let over = Message {
        occasion: Occasion::Recovered,
        count: 7,
        recovered_at: Some(at("2026-01-01T02:13:09Z")),
        ..message.clone()
    };
    assert_eq!(title(&over), "nightly-backup has recovered after 2h13m (7 failures)");
    let alone = Message { trigger: Some(Trigger::Recovery), recovered_at: None, ..over.clone() };
    assert_eq!(title(&alone), "nightly-backup has recovered");
    let late = Message { trigger: Some(Trigger::LateStart), ..over };
    assert_eq!(title(&late), "nightly-backup is fine again after 2h13m");
    // No combination is without words.
    for trigger in Trigger::ALL {
        for occasion in Occasion::ALL {
            for subjects in [vec![], nightly(*trigger).subjects, about(*trigger, three_nodes()).subjects] {
                let words = title(&Message { occasion: *occasion, ..about(*trigger, subjects) });
                assert!(words.len() > 8 && words.len() < 200, "{trigger} {occasion}: {words}");
            }
        }
    }
}

fn three_nodes() -> Vec<Subject> {
    ["x", "y", "z"].map(|name| subject(SubjectKind::Node, name)).to_vec()
}

#[test]
fn n03_who_knows_the_server_gets_links_and_others_a_command() {
    let job_id = Some(JobId::from(uuid::Uuid::from_u128(9)));
    let subjects = vec![subject(SubjectKind::Schedule, "a/b c")];
    let message = Message { job_id, ..about(Trigger::Failure, subjects) };
    let words = message.wording(Some("https://p.example/x/"));
    let links: Vec<(&str, &str)> = words.links.iter().map(|link| (link.label, link.url.as_str())).collect();
    assert_eq!(
        links,
        [
            ("acknowledge", "https://p.example/x/acknowledge/c0de"),
            ("alert", "https://p.example/x/alerts/00000000-0000-0000-0000-000000000007"),
            ("schedule", "https://p.example/x/schedules/a%2Fb%20c"),
            ("job", "https://p.example/x/jobs/00000000-0000-0000-0000-000000000009"),
        ]
    );
    assert_eq!(words.command, None);
    let words = message.wording(None);
    let command = "punctual alert acknowledge 00000000-0000-0000-0000-000000000007";
    assert_eq!((words.links, words.command.as_deref()), (vec![], Some(command)));
    // What is over needs no acknowledgement.
    let over = Message { occasion: Occasion::Recovered, ..message };
    assert_eq!(over.wording(None).command, None);
    assert!(over.wording(Some("https://p.example")).links.iter().all(|link| link.label != ACKNOWLEDGE));
}

#[test]
fn n01_an_error_keeps_its_lines_and_is_cut() {
    let error = format!("first\n\tsecond\u{7}\n{}", "x".repeat(5000));
    let message = Message { error_code: Some(ErrorCode::Timeout), error: Some(error), ..nightly(Trigger::Failure) };
    let facts = message.wording(None).facts;
    let text = &facts.iter().find(|fact| fact.label == "Error").unwrap().text;
    assert!(text.starts_with("timeout: first\n\tsecond\nxxx") && text.ends_with('…'), "{text}");
    assert!(text.chars().count() < 1600);
}

#[test]
fn n02_lengths_of_time_are_told_by_their_largest_parts() {
    for (seconds, words) in [(0, "a moment"), (59, "59s"), (125, "2m5s"), (7_999, "2h13m"), (183_600, "2d3h")] {
        assert_eq!(roughly(SignedDuration::from_secs(seconds)), words);
    }
}

proptest! {
    /// Whatever somebody calls a schedule, or writes into an error: nothing leaves its line.
    #[test]
    fn n01_hostile_names_are_shown_as_text(name in "\\PC{0,20}[\r\n\t\u{0}\u{202e}\u{2028}]{0,3}\\PC{0,200}", error in ".{0,300}") {
        let subjects = vec![subject(SubjectKind::Schedule, &name)];
        let message = Message { error: Some(format!("{error}\r\nBcc: x")), ..about(Trigger::Failure, subjects) };
        let words = message.wording(Some("https://p.example"));
        prop_assert!(!words.title.chars().any(is_unseen), "{:?}", words.title);
        prop_assert!(words.title.chars().count() < 300);
        for fact in words.facts {
            let broken = fact.text.chars().any(|letter| is_unseen(letter) && !matches!(letter, '\n' | '\t'));
            prop_assert!(!broken, "{:?}", fact);
            prop_assert!(fact.label == "Error" || !fact.text.contains('\n'));
        }
        for link in words.links {
            prop_assert!(link.url.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"".contains(&byte)));
        }
    }
}
