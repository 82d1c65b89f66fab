//! Tables for what may refuse a slot: overlap, concurrency, dependency, calendar.

use super::*;
use crate::calendar::{CalendarRules, ClosedDay, Window};
use crate::schedule::Dependency;

fn alive(running: u32, waiting: u32) -> Facts {
    Facts { running, waiting, ..Facts::default() }
}

fn overlapping(overlap: Overlap, missed: Missed) -> Schedule {
    schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
        d.overlap = overlap;
        d.missed = missed;
    })
}

/// `serial` and `replaces_live` of each job made.
fn jobs(firing: &Firing) -> Vec<(bool, bool)> {
    firing.slots.iter().filter_map(|slot| slot.job).map(|job| (job.serial, job.replaces_live)).collect()
}

#[test]
fn a21_each_overlap_policy_decides_by_what_is_alive() {
    let (fires, skips) = ("fired 00:01:00 on_time; next 00:02:00", "skipped 00:01:00 overlap; next 00:02:00");
    for (overlap, running, waiting, expected) in [
        (Overlap::Allow, 0, 0, fires),
        (Overlap::Allow, 3, 9, fires),
        (Overlap::Forbid, 0, 0, fires),
        (Overlap::Forbid, 1, 0, skips),
        (Overlap::Forbid, 0, 1, skips),
        (Overlap::Replace, 0, 0, fires),
        (Overlap::Replace, 1, 1, fires),
        (Overlap::QueueOne, 0, 0, fires),
        (Overlap::QueueOne, 1, 0, fires),
        (Overlap::QueueOne, 0, 1, skips),
        (Overlap::QueueOne, 1, 1, skips),
    ] {
        let schedule = overlapping(overlap, Missed::ONCE);
        let decided = fired_with(&schedule, "00:01:00", &alive(running, waiting));
        assert_eq!(decided, expected, "{overlap}, {running} running, {waiting} waiting");
    }
}

#[test]
fn a21_a_job_is_told_whether_it_waits_or_replaces() {
    for (overlap, facts, expected) in [
        (Overlap::Allow, alive(1, 1), (false, false)),
        (Overlap::Forbid, alive(0, 0), (false, false)),
        (Overlap::QueueOne, alive(1, 0), (true, false)),
        (Overlap::Replace, alive(0, 0), (true, false)),
        (Overlap::Replace, alive(1, 0), (true, true)),
        (Overlap::Replace, alive(0, 1), (true, true)),
    ] {
        let firing = overlapping(overlap, Missed::ONCE).fire(at("00:01:00"), &facts);
        assert_eq!(jobs(&firing), [expected], "{overlap} with {facts:?}");
    }
    let serial = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| d.serial = true);
    assert_eq!(jobs(&serial.fire(at("00:01:00"), &alive(1, 1))), [(true, false)]);
}

#[test]
fn a21_several_slots_in_one_pass_see_each_other() {
    for (overlap, expected) in [
        (Overlap::Allow, "fired 00:01:00 catchup; fired 00:02:00 catchup; fired 00:03:00 on_time; next 00:04:00"),
        (Overlap::Forbid, "fired 00:01:00 catchup; skipped 00:02:00 overlap; skipped 00:03:00 overlap; next 00:04:00"),
        (
            Overlap::QueueOne,
            "fired 00:01:00 catchup; skipped 00:02:00 overlap; skipped 00:03:00 overlap; next 00:04:00",
        ),
        (Overlap::Replace, "fired 00:01:00 catchup; fired 00:02:00 catchup; fired 00:03:00 on_time; next 00:04:00"),
    ] {
        let schedule = overlapping(overlap, Missed::all(9));
        assert_eq!(fired(&schedule, "00:03:00"), expected, "{overlap}");
    }
    let replacing = overlapping(Overlap::Replace, Missed::all(9)).fire(at("00:03:00"), &Facts::default());
    assert_eq!(jobs(&replacing), [(true, false), (true, true), (true, true)]);
}

#[test]
fn d08_a_slot_that_the_ledger_holds_keeps_no_other_from_firing() {
    let decided = Facts { decided: vec![(at("00:01:00"), at("00:02:00"))], ..Facts::default() };
    for overlap in [Overlap::Forbid, Overlap::QueueOne] {
        let schedule = overlapping(overlap, Missed::all(9));
        assert_eq!(schedule.due_beside_ledger(at("00:01:59")), None, "one slot is due");
        assert_eq!(schedule.due_beside_ledger(at("00:04:00")), Some((at("00:01:00"), at("00:04:00"))));
        let told = fired_with(&schedule, "00:04:00", &decided);
        assert!(told.ends_with("fired 00:03:00 catchup; skipped 00:04:00 overlap; next 00:05:00"), "{overlap}: {told}");
    }
    for unasked in [overlapping(Overlap::Forbid, Missed::ONCE), overlapping(Overlap::Replace, Missed::all(9))] {
        assert_eq!(unasked.due_beside_ledger(at("00:04:00")), None, "{:?}", unasked.definition.overlap);
    }
}

#[test]
fn d10_no_more_than_max_concurrent_runs_are_made() {
    let limited = |overlap| {
        schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
            d.max_concurrent_runs = Some(2);
            d.overlap = overlap;
            d.missed = Missed::all(9);
        })
    };
    let decided = |overlap, running, waiting| fired_with(&limited(overlap), "00:01:00", &alive(running, waiting));
    assert_eq!(decided(Overlap::Allow, 0, 0), "fired 00:01:00 on_time; next 00:02:00");
    assert_eq!(decided(Overlap::Allow, 1, 0), "fired 00:01:00 on_time; next 00:02:00");
    assert_eq!(decided(Overlap::Allow, 1, 1), "skipped 00:01:00 max_concurrent_runs; next 00:02:00");
    assert_eq!(decided(Overlap::Allow, u32::MAX, u32::MAX), "skipped 00:01:00 max_concurrent_runs; next 00:02:00");
    assert_eq!(decided(Overlap::QueueOne, 2, 0), "skipped 00:01:00 max_concurrent_runs; next 00:02:00");
    // The one that is replaced makes room.
    assert_eq!(decided(Overlap::Replace, 2, 0), "fired 00:01:00 on_time; next 00:02:00");
    assert_eq!(
        fired_with(&limited(Overlap::Allow), "00:03:00", &alive(0, 0)),
        "fired 00:01:00 catchup; fired 00:02:00 catchup; skipped 00:03:00 max_concurrent_runs; next 00:04:00"
    );
}

#[test]
fn d11_a_slot_runs_only_after_a_recent_success_of_the_other() {
    let dependent = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| {
        d.depends_on = Some(Dependency { schedule_id: ScheduleId(uuid::Uuid::from_u128(7)), within: mins(30) });
    });
    for (succeeded, expected) in [
        (None, "skipped 01:00:00 dependency; next 02:00:00"),
        (Some("00:29:59.999999"), "skipped 01:00:00 dependency; next 02:00:00"),
        (Some("00:30:00"), "fired 01:00:00 on_time; next 02:00:00"),
        (Some("01:00:00"), "fired 01:00:00 on_time; next 02:00:00"),
        // The other may succeed between the slot and the decision.
        (Some("01:00:04"), "fired 01:00:00 on_time; next 02:00:00"),
    ] {
        let facts = Facts { dependency_succeeded_at: succeeded.map(at), ..Facts::default() };
        assert_eq!(fired_with(&dependent, "01:00:05", &facts), expected, "{succeeded:?}");
    }
}

#[test]
fn d11_a_missed_slot_is_late_before_anything_else_is_asked() {
    let schedule = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| {
        d.missed = Missed::SKIP;
        d.overlap = Overlap::Forbid;
    });
    assert_eq!(fired_with(&schedule, "01:30:00", &alive(1, 0)), "missed 01:00:00 too_late; next 02:00:00");
}

/// Nothing may run on 1 March in Berlin, nor from 09:00 to 10:00 UTC on the 2nd.
fn holiday() -> Facts {
    let rules = CalendarRules {
        timezone: "Europe/Berlin".into(),
        days: vec![ClosedDay { on: "2026-03-01".parse().unwrap(), note: Some("a feast".into()) }],
        windows: vec![Window { from: at("2026-03-02T09:00:00Z"), until: at("2026-03-02T10:00:00Z"), note: None }],
        ..CalendarRules::default()
    };
    Facts { calendar: Some(Arc::new(Calendar::new("feasts", rules).unwrap())), ..Facts::default() }
}

#[test]
fn d11_what_the_calendar_excludes_is_skipped_with_that_reason() {
    let hourly = |missed| schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.missed = missed);
    for missed in [Missed::SKIP, Missed::ONCE, Missed::all(9)] {
        assert_eq!(fired_with(&hourly(missed), "01:00:00", &holiday()), "skipped 01:00:00 calendar; next 02:00:00");
    }
    // The day ends at midnight in Berlin, which is 23:00 UTC.
    assert_eq!(
        fired_with(&hourly(Missed::all(2)), "23:00:00", &holiday()),
        "missed 01:00:00..21:00:00 x21 over_limit; skipped 22:00:00 calendar; fired 23:00:00 on_time; next 2026-03-02T00:00:00Z"
    );
}

#[test]
fn e03_once_runs_the_latest_slot_that_the_calendar_allows() {
    let mut hourly = schedule(TimingSpec::cron("0 * * * *", "UTC"), |_| ());
    force_plan(&mut hourly, "22:00:00", "22:00:00");
    assert_eq!(
        fired_with(&hourly, "2026-03-02T09:30:00Z", &holiday()),
        "missed 22:00:00..2026-03-02T07:00:00Z x10 superseded; fired 2026-03-02T08:00:00Z catchup; \
         skipped 2026-03-02T09:00:00Z calendar; next 2026-03-02T10:00:00Z"
    );
    // A per-second schedule passes over the whole entry in one step.
    let mut secondly = schedule(TimingSpec::cron("* * * * * *", "UTC"), |_| ());
    force_plan(&mut secondly, "2026-03-02T08:59:58Z", "2026-03-02T08:59:58Z");
    let (firing, steps) = steps_of(|| secondly.fire(at("2026-03-02T09:59:59Z"), &holiday()));
    assert_eq!(
        said(&firing),
        "missed 2026-03-02T08:59:58Z superseded; fired 2026-03-02T08:59:59Z catchup; \
         skipped 2026-03-02T09:00:00Z..2026-03-02T09:59:59Z x3600 calendar; next 2026-03-02T10:00:00Z"
    );
    assert!(steps < 40, "{steps} steps");
    // Nothing is left to run when the calendar excludes all.
    let all_day = schedule(TimingSpec::cron("0 * * * *", "UTC"), |_| ());
    assert_eq!(
        fired_with(&all_day, "05:00:00", &holiday()),
        "missed 01:00:00..04:00:00 x4 superseded; skipped 05:00:00 calendar; next 06:00:00"
    );
}
