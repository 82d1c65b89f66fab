//! Answers for every kind of instant, past and future, on schedules in several zones.

use super::*;
use crate::calendar::{CalendarRules, ClosedDay};
use crate::id::ScheduleId;
use crate::name::Name;
use crate::schedule::{Dependency, Pause, ScheduleDefinition, ScheduleResults, ScheduleState};
use crate::target::Target;
use jiff::SignedDuration;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Made on 1 March 2026, with the slot after `decided` planned.
fn schedule(cron: &str, zone: &str, decided: &str, change: impl FnOnce(&mut ScheduleDefinition)) -> Schedule {
    let timing = TimingSpec::cron(cron, zone);
    let mut definition = ScheduleDefinition::new(Name::new("s").unwrap(), timing, Target::command(["true"]));
    change(&mut definition);
    let mut schedule = Schedule {
        id: ScheduleId(uuid::Uuid::from_u128(1)),
        version: 1,
        created_at: at("2026-03-01T00:00:00Z"),
        updated_at: at("2026-03-01T00:00:00Z"),
        anchor_at: at("2026-03-01T00:00:00Z"),
        seed: "s".into(),
        definition,
        state: ScheduleState { enabled: true, fired_through: Some(at(decided)), ..ScheduleState::default() },
        results: ScheduleResults::default(),
    };
    let next = schedule.slots().unwrap().next_after(at(decided));
    (schedule.state.next_slot_at, schedule.state.next_run_at) = (next, next);
    schedule
}

fn known(now: &str) -> Known {
    Known { now: at(now), kept_since: at("2026-03-05T00:00:00Z"), ..Known::default() }
}

#[track_caller]
fn check(schedule: &Schedule, instant: &str, known: &Known, verdict: Verdict, words: &str) {
    let answer = schedule.why_unrecorded(at(instant), known);
    assert_eq!(answer.verdict, verdict, "{answer:?}");
    assert!(answer.words.contains(words), "`{}` does not say `{words}`", answer.words);
}

#[test]
fn a10_every_instant_has_an_answer() {
    let daily = schedule("0 8 * * *", "UTC", "2026-03-10T08:00:00Z", |d| {
        d.starts_at = Some(at("2026-03-02T00:00:00Z"));
        d.ends_at = Some(at("2026-03-20T00:00:00Z"));
    });
    let now = known("2026-03-11T09:00:00Z");
    for (instant, verdict, words) in [
        (
            "2026-03-07T09:00:00Z",
            Verdict::NotASlot,
            "before it: 2026-03-07T08:00:00Z. The next one: 2026-03-08T08:00:00Z.",
        ),
        ("2026-03-01T08:00:00Z", Verdict::BeforeStartsAt, "before it starts at 2026-03-02T00:00:00Z"),
        ("2026-02-01T08:00:00Z", Verdict::BeforeStartsAt, "before it starts"),
        ("2026-03-20T08:00:00Z", Verdict::AfterEndsAt, "after it ended at 2026-03-20T00:00:00Z"),
        (
            "2026-03-20T09:00:00Z",
            Verdict::Exhausted,
            "there are none after it. The one before it: 2026-03-19T08:00:00Z",
        ),
        ("2026-03-04T08:00:00Z", Verdict::Forgotten, "before 2026-03-05T00:00:00Z is forgotten"),
        ("2026-03-09T08:00:00Z", Verdict::Unrecorded, "by the present definition only"),
        ("2026-03-11T08:00:00Z", Verdict::Due, "has not been decided yet"),
        ("2026-03-12T08:00:00Z", Verdict::Ahead, "lies ahead"),
    ] {
        check(&daily, instant, &now, verdict, words);
    }
    let unbounded = schedule("0 8 * * *", "UTC", "2026-03-10T08:00:00Z", |_| ());
    check(&unbounded, "2026-02-01T08:00:00Z", &now, Verdict::BeforeCreated, "it was made at 2026-03-01T00:00:00Z");
}

#[test]
fn a10_what_will_keep_a_slot_from_running_is_said_beforehand() {
    let now = known("2026-03-10T09:00:00Z");
    let base = |change: fn(&mut ScheduleDefinition)| schedule("0 8 * * *", "UTC", "2026-03-10T08:00:00Z", change);
    let next = "2026-03-11T08:00:00Z";
    let rules = CalendarRules {
        days: vec![ClosedDay { on: "2026-03-11".parse().unwrap(), note: Some("stocktaking".into()) }],
        ..CalendarRules::default()
    };
    let closed = Known { calendar: Some(Calendar::new("shop", rules).unwrap()), ..now.clone() };
    check(
        &base(|_| ()),
        next,
        &closed,
        Verdict::WillBeSkipped,
        "because of its calendar (calendar shop: 2026-03-11 is closed (stocktaking)). It is open again from 2026-03-12",
    );
    check(&base(|_| ()), "2026-03-12T08:00:00Z", &closed, Verdict::Ahead, "lies ahead");

    let mut paused = base(|_| ());
    paused.state.enabled = false;
    paused.state.next_run_at = None;
    let pause = |until: Option<&str>| {
        let (by, note) = (Some("ada".to_owned()), Some("audit".to_owned()));
        Some(Pause { at: at("2026-03-10T08:30:00Z"), by, note, until: until.map(at) })
    };
    paused.state.pause = pause(None);
    check(&paused, next, &now, Verdict::WillBeSkipped, "unless the schedule is resumed: it is paused by ada");
    paused.state.pause = pause(Some("2026-03-12T00:00:00Z"));
    check(&paused, next, &now, Verdict::WillBeSkipped, "until 2026-03-12T00:00:00Z: audit");
    check(&paused, "2026-03-12T08:00:00Z", &now, Verdict::Ahead, "lies ahead");
    check(&paused, next, &known("2026-03-11T09:00:00Z"), Verdict::Paused, "recorded as skipped when it goes on");

    let mut broken = base(|_| ());
    broken.state.problem = Some("no executor: no live node offers `task:x`".into());
    check(&broken, next, &now, Verdict::Problem, "no executor");

    let jittered = base(|d| d.jitter = SignedDuration::from_hours(1));
    let later = "2026-03-13T08:00:00Z";
    let due = jittered.slots().unwrap().due_at(at(later));
    check(&jittered, later, &now, Verdict::Ahead, &format!("which is at {due} because of its jitter"));
}

#[test]
fn a10_what_is_alive_now_and_what_it_depends_on_is_said_of_the_next_slot() {
    let now = known("2026-03-10T09:00:00Z");
    let next = "2026-03-11T08:00:00Z";
    let with = |overlap, most| {
        schedule("0 8 * * *", "UTC", "2026-03-10T08:00:00Z", |d| {
            d.overlap = overlap;
            d.max_concurrent_runs = most;
        })
    };
    let alive = |running, waiting| Known { running, waiting, ..now.clone() };
    for (overlap, most, known, words) in [
        (Overlap::Forbid, None, alive(1, 0), "A run of it is alive now; if that is still so then, it will be skipped"),
        (Overlap::QueueOne, None, alive(1, 1), "2 runs of it are alive now, and one waits"),
        (Overlap::Replace, None, alive(1, 0), "it will be cancelled for this one"),
        (Overlap::Allow, Some(2), alive(2, 0), "because max_concurrent_runs is 2"),
    ] {
        check(&with(overlap, most), next, &known, Verdict::Ahead, words);
    }
    for (overlap, most, known) in [
        (Overlap::Forbid, None, alive(0, 0)),
        (Overlap::QueueOne, None, alive(1, 0)),
        (Overlap::Allow, Some(2), alive(1, 0)),
        (Overlap::Allow, None, alive(9, 9)),
    ] {
        let answer = with(overlap, most).why_unrecorded(at(next), &known);
        assert_eq!(answer.words, "This slot lies ahead; it will be decided when it is due.", "{overlap}");
    }
    let dependent = schedule("0 8 * * *", "UTC", "2026-03-10T08:00:00Z", |d| {
        let schedule_id = ScheduleId(uuid::Uuid::from_u128(2));
        d.depends_on = Some(Dependency { schedule_id, within: SignedDuration::from_hours(2) });
    });
    let knows = Known { dependency: Some(("import".into(), None)), ..now };
    check(
        &dependent,
        next,
        &knows,
        Verdict::Ahead,
        "only if `import` has succeeded within 2h before it; it never did yet",
    );
}

fn place(cron: &str, zone: &str, wall: &str, dst: crate::cron::Dst) -> Place {
    let schedule = schedule("0 0 1 1 *", "UTC", "2026-03-01T00:00:00Z", |d| {
        d.timing = TimingSpec::Cron { expression: cron.into(), timezone: zone.into(), dst };
    });
    schedule.place(wall.parse().unwrap()).unwrap()
}

#[test]
fn b05_a_local_time_that_does_not_exist_is_said_to_and_what_stands_for_it() {
    let usual = crate::cron::Dst::default();
    let skip = crate::cron::Dst { gap: DstGap::Skip, ..usual };
    for (cron, zone, wall, dst, instant, is_all, words) in [
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T02:30",
            usual,
            "2026-03-29T01:00:00Z",
            false,
            "the clock goes from 2026-03-29 02:00:00 to 2026-03-29 03:00:00. The schedule's slot is 2026-03-29T01:00:00Z instead",
        ),
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T02:30",
            skip,
            "2026-03-29T01:00:00Z",
            true,
            "leaves it out (dst_gap is skip)",
        ),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T02:30", usual, "2026-03-29T01:00:00Z", true, "makes nothing up"),
        (
            "0 8 * * *",
            "Europe/Berlin",
            "2026-03-29T02:30",
            usual,
            "2026-03-29T01:00:00Z",
            true,
            "no slot at that time anyway",
        ),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-04T02:15",
            usual,
            "2026-10-03T15:30:00Z",
            false,
            "the clock goes from 2026-10-04 02:00:00 to 2026-10-04 02:30:00",
        ),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-30T12:00",
            usual,
            "2011-12-30T10:00:00Z",
            false,
            "the clock goes from 2011-12-30 00:00:00 to 2011-12-31 00:00:00",
        ),
    ] {
        let place = place(cron, zone, wall, dst);
        assert_eq!((place.at, place.is_all), (at(instant), is_all), "{zone} {cron}: {place:?}");
        let remark = place.remark.unwrap();
        assert!(remark.contains("does not exist") && remark.contains(words), "{zone} {cron}: {remark}");
    }
}

#[test]
fn b05_a_local_time_that_comes_twice_is_said_to_and_which_one_counts() {
    let usual = crate::cron::Dst::default();
    let with = |overlap| crate::cron::Dst { overlap, ..usual };
    for (cron, dst, instant, words) in [
        ("30 2 * * *", usual, "2026-10-25T00:30:00Z", "fires at the first (dst_overlap is first)"),
        ("30 2 * * *", with(DstOverlap::Second), "2026-10-25T01:30:00Z", "fires at the second (dst_overlap is second)"),
        ("30 2 * * *", with(DstOverlap::Both), "2026-10-25T00:30:00Z", "fires at both (dst_overlap is both)"),
        ("*/30 * * * *", usual, "2026-10-25T00:30:00Z", "follows the clock and has a slot at both"),
    ] {
        let place = place(cron, "Europe/Berlin", "2026-10-25T02:30", dst);
        assert_eq!((place.at, place.is_all), (at(instant), false), "{cron}: {place:?}");
        let remark = place.remark.unwrap();
        let both = "comes twice there: at 2026-10-25T00:30:00Z (+02) and at 2026-10-25T01:30:00Z (+01)";
        assert!(remark.contains(both) && remark.contains(words), "{cron}: {remark}");
    }
    let plain = place("30 2 * * *", "Europe/Berlin", "2026-10-26T02:30", usual);
    assert_eq!(plain, Place { at: at("2026-10-26T01:30:00Z"), remark: None, is_all: false });
    let instant = place("30 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", usual);
    assert_eq!((instant.at, instant.remark), (at("2026-10-25T01:30:00Z"), None));
}
