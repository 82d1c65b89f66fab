//! Tables for what holds a slot back or stops a schedule: the cap on fires, failures in a row, the end of a pause.

use super::*;
use crate::cap::{CappedPass, FireCap};
use crate::replan::Judged;
use crate::schedule::{Forgiven, Pause};

fn capped(room: usize) -> Facts {
    Facts { room: Some(room), ..Facts::default() }
}

#[test]
fn d10_a_cap_lets_as_many_slots_through_as_there_is_room() {
    let all = minutely(Missed::all(9));
    for (room, expected) in [
        (1, "fired 00:01:00 catchup; next 00:02:00"),
        (2, "fired 00:01:00 catchup; fired 00:02:00 catchup; next 00:03:00"),
        (9, "fired 00:01:00 catchup; fired 00:02:00 catchup; fired 00:03:00 on_time; next 00:04:00"),
    ] {
        assert_eq!(fired_with(&all, "00:03:00", &capped(room)), expected, "{room}");
    }
    // A single slot needs room for one, and fires on time as ever.
    assert_eq!(fired_with(&minutely(Missed::SKIP), "00:01:00", &capped(1)), "fired 00:01:00 on_time; next 00:02:00");
}

#[test]
fn d10_what_a_cap_held_back_is_late_and_not_lost() {
    let skip = schedule(TimingSpec::cron("0 * * * *", "UTC"), |d| d.missed = Missed::SKIP);
    for (held_since, expected) in [
        (None, "missed 01:00:00 too_late; next 02:00:00"),
        (Some("01:00:00"), "fired 01:00:00 catchup; next 02:00:00"),
        (Some("00:30:00"), "fired 01:00:00 catchup; next 02:00:00"),
        // It was late before the cap held anything back.
        (Some("01:00:01"), "missed 01:00:00 too_late; next 02:00:00"),
    ] {
        let facts = Facts { held_since: held_since.map(at), ..capped(1) };
        assert_eq!(fired_with(&skip, "01:05:00", &facts), expected, "{held_since:?}");
    }
    let firing = skip.fire(at("01:05:00"), &Facts { held_since: Some(at("01:00:00")), ..capped(1) });
    assert_eq!(firing.slots[0].late_ms, 300_000);
}

#[test]
fn d10_burst_allowed_neither_waits_for_the_cap_nor_counts() {
    let schedule = |burst_allowed| schedule(TimingSpec::cron("* * * * *", "UTC"), |d| d.burst_allowed = burst_allowed);
    let (plain, burst) = (schedule(false), schedule(true));
    let now = at("00:01:00");
    let mut pass = CappedPass::new(Some(FireCap::new(1).unwrap()));
    let mut turn = |schedule: &Schedule| {
        let mut facts = Facts::default();
        if !pass.admits(schedule, now, &mut facts) {
            return "waits".to_owned();
        }
        let firing = schedule.fire(now, &facts);
        pass.fired(schedule, now, firing.slots.len(), &firing.next);
        said(&firing)
    };
    let fires = "fired 00:01:00 on_time; next 00:02:00";
    for (schedule, expected) in
        [(&burst, fires), (&burst, fires), (&plain, fires), (&plain, "waits"), (&burst, fires), (&plain, "waits")]
    {
        assert_eq!(turn(schedule), expected);
    }
    let cap = pass.ended().unwrap();
    assert_eq!((cap.held_since(), cap.room(now), cap.room(at("00:01:01"))), (Some(now), 0, 1));
    // Without a cap everybody fires, and nothing is remembered.
    let mut free = CappedPass::default();
    assert!(free.admits(&plain, now, &mut Facts::default()) && free.ended().is_none());
}

fn judged(schedule: &Schedule, now: &str, facts: &Facts) -> String {
    match schedule.judge(at(now), facts) {
        Judged::Fires(firing) => said(&firing),
        Judged::Stops(firing, pause) => format!("stops: {}; {}", said(&firing), pause.note.unwrap()),
        Judged::GoesOn(firing) => format!("goes on: {}", said(&firing)),
    }
}

fn failed(failures_in_row: u32) -> Facts {
    Facts { failures_in_row, ..Facts::default() }
}

#[test]
fn d03_a_schedule_pauses_after_so_many_failures_in_a_row() {
    let stops = |missed, after: Option<u32>| {
        schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
            d.missed = missed;
            d.pause_after_failures = after;
        })
    };
    for (after, failures, expected) in [
        (None, 99, "fired 00:01:00 on_time; next 00:02:00"),
        (Some(3), 0, "fired 00:01:00 on_time; next 00:02:00"),
        (Some(3), 2, "fired 00:01:00 on_time; next 00:02:00"),
        (
            Some(3),
            3,
            "stops: skipped 00:01:00 paused; next 00:02:00; \
             paused by itself: 3 runs failed in a row, and pause_after_failures is 3",
        ),
        (
            Some(1),
            1,
            "stops: skipped 00:01:00 paused; next 00:02:00; \
             paused by itself: a run failed, and pause_after_failures is 1",
        ),
    ] {
        for missed in [Missed::SKIP, Missed::ONCE, Missed::all(5)] {
            assert_eq!(judged(&stops(missed, after), "00:01:00", &failed(failures)), expected, "{after:?} {failures}");
        }
    }
    // All that was due is one range, and nothing that is not due is decided.
    assert!(
        judged(&stops(Missed::all(5), Some(1)), "00:03:30", &failed(1))
            .starts_with("stops: skipped 00:01:00..00:03:00 x3 paused; next 00:04:00")
    );
    assert_eq!(judged(&stops(Missed::ONCE, Some(1)), "00:00:59", &failed(1)), "next 00:01:00");
    let last = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| {
        d.pause_after_failures = Some(1);
        d.ends_at = Some(at("00:01:00"));
    });
    assert!(judged(&last, "00:01:00", &failed(1)).starts_with("stops: skipped 00:01:00 paused; exhausted"));
}

#[test]
fn d03_failures_before_a_pause_do_not_count_towards_the_next() {
    let mut schedule = minutely(Missed::ONCE);
    let results = |failures, success: Option<&str>| ScheduleResults {
        consecutive_failures: failures,
        last_success_at: success.map(at),
        ..ScheduleResults::default()
    };
    assert_eq!(schedule.failures_in_row(&results(5, None)), 5);
    schedule.state.forgiven = Some(Forgiven { at: at("00:10:00"), failures: 5 });
    assert_eq!(schedule.failures_in_row(&results(5, None)), 0);
    assert_eq!(schedule.failures_in_row(&results(7, Some("00:09:59"))), 2);
    // A success since has made them forgotten, too.
    assert_eq!(schedule.failures_in_row(&results(7, Some("00:10:00"))), 7);
}

fn paused(missed: Missed, until: Option<&str>) -> Schedule {
    let mut schedule = minutely(missed);
    schedule.state.enabled = false;
    schedule.state.next_run_at = None;
    let until = until.map(at);
    schedule.state.pause =
        Some(Pause { at: at("00:00:30"), by: Some("ada".into()), note: Some("tests".into()), until });
    schedule
}

#[test]
fn d03_a_pause_ends_at_its_time_and_what_is_due_then_fires() {
    for (now, until, expected) in [
        ("00:05:00", None, "next 00:01:00"),
        ("00:04:59", Some("00:05:00"), "next 00:01:00"),
        // The slot at the end itself is not of the pause.
        ("00:05:00", Some("00:05:00"), "goes on: skipped 00:01:00..00:04:00 x4 paused; next 00:05:00"),
        ("00:05:30", Some("00:05:30"), "goes on: skipped 00:01:00..00:05:00 x5 paused; next 00:06:00"),
        // Looked at late: what came after the pause is for the missed policy.
        ("00:09:00", Some("00:05:30"), "goes on: skipped 00:01:00..00:05:00 x5 paused; next 00:06:00"),
        ("00:00:50", Some("00:00:50"), "goes on: next 00:01:00"),
    ] {
        assert_eq!(judged(&paused(Missed::ONCE, until), now, &Facts::default()), expected, "{now} {until:?}");
    }
    let Judged::GoesOn(firing) = paused(Missed::ONCE, Some("00:05:00")).judge(at("00:05:00"), &failed(0)) else {
        panic!("it goes on")
    };
    let note = firing.slots[0].note.clone().unwrap();
    assert_eq!(note, "paused by ada at 2026-03-01T00:00:30Z until 2026-03-01T00:05:00Z: tests");
}

#[test]
fn d03_after_a_pause_each_policy_goes_on_as_usual() {
    for (missed, expected) in [
        (Missed::SKIP, "missed 00:06:00..00:08:00 x3 superseded; fired 00:09:00 on_time; next 00:10:00"),
        (Missed::ONCE, "missed 00:06:00..00:08:00 x3 superseded; fired 00:09:00 catchup; next 00:10:00"),
        (
            Missed::all(2),
            "missed 00:06:00..00:07:00 x2 over_limit; fired 00:08:00 catchup; fired 00:09:00 on_time; next 00:10:00",
        ),
    ] {
        let mut schedule = paused(missed, Some("00:05:30"));
        let Judged::GoesOn(firing) = schedule.judge(at("00:09:00"), &Facts::default()) else { panic!("it goes on") };
        store_firing(&mut schedule, &firing);
        (schedule.state.enabled, schedule.state.pause) = (true, None);
        assert_eq!(judged(&schedule, "00:09:00", &Facts::default()), expected, "{missed:?}");
    }
}

#[test]
fn d11_a_schedule_whose_calendar_is_gone_tells_so_and_fires_nothing() {
    let schedule = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| d.calendar = Some("feasts".into()));
    let firing = schedule.fire(at("00:01:00"), &Facts::default());
    assert_eq!(firing.slots, []);
    assert!(matches!(&firing.next, Next::Problem(problem) if problem.contains("`feasts` is gone")), "{firing:?}");
}
