//! Stored plans that nobody made: null, impossible, not to be understood, or written under another clock.

use super::*;
use crate::cron::Dst;
use proptest::prelude::*;

#[test]
fn e01_a_null_plan_is_made_from_now_and_nothing_fires() {
    for missed in [Missed::SKIP, Missed::ONCE, Missed::all(100)] {
        for (slot_at, run_at) in [(None, None), (Some("00:01:00"), None), (None, Some("00:01:00"))] {
            let mut schedule = minutely(missed);
            schedule.state.next_slot_at = slot_at.map(at);
            schedule.state.next_run_at = run_at.map(at);
            assert!(!schedule.plan_is_sound());
            assert_eq!(fired(&schedule, "05:00:30"), "next 05:01:00");
        }
    }
}

#[test]
fn a08_an_impossible_plan_is_made_anew_and_never_fired() {
    let decided = Some(at("03:00:00"));
    for (slot_at, run_at, fired_through, why) in [
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", None, "older than the schedule"),
        ("2026-02-28T23:59:59.999999Z", "2026-02-28T23:59:59.999999Z", None, "older than the schedule"),
        ("04:00:00", "03:59:59.999999", None, "due before its slot"),
        ("04:00:00", "04:00:30.000001", None, "due later than jitter allows"),
        ("04:00:00", "04:30:00", None, "due later than jitter allows"),
        ("03:00:00", "03:00:00", decided, "decided already"),
        ("02:00:00", "02:00:00", decided, "decided already"),
    ] {
        let mut schedule = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| d.jitter = secs(30));
        schedule.state.fired_through = fired_through;
        force_plan(&mut schedule, slot_at, run_at);
        assert!(!schedule.plan_is_sound(), "{why}");
        let firing = schedule.fire(at("05:00:30"), &Facts::default());
        assert!(firing.slots.is_empty(), "{why}");
        assert_eq!(firing.next, schedule.plan_next(at("05:00:30")), "{why}");
        store_firing(&mut schedule, &firing);
        assert!(schedule.plan_is_sound(), "{why}");
        assert_eq!(schedule.state.next_slot_at, Some(at("05:01:00")), "{why}");
    }
}

#[test]
fn a08_a_plan_at_its_bounds_is_sound() {
    let mut schedule = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| d.jitter = secs(30));
    for (slot_at, run_at) in [("00:00:00", "00:00:00"), ("04:00:00", "04:00:30")] {
        force_plan(&mut schedule, slot_at, run_at);
        assert!(schedule.plan_is_sound());
    }
}

#[test]
fn e02_what_cannot_be_understood_is_a_problem_and_fires_nothing() {
    let specs = [
        TimingSpec::cron("every tuesday", "UTC"),
        TimingSpec::cron("0 0 30 2 *", "UTC"),
        TimingSpec::cron("* * * * *", "Mars/Olympus"),
        TimingSpec::Every { period: SignedDuration::ZERO },
    ];
    for spec in specs {
        let mut schedule = minutely(Missed::ONCE);
        schedule.definition.timing = spec.clone();
        let firing = schedule.fire(at("05:00:00"), &Facts::default());
        assert!(firing.slots.is_empty());
        assert!(matches!(&firing.next, Next::Problem(words) if !words.is_empty()), "{spec:?}: {:?}", firing.next);
        assert_eq!(schedule.plan_next(at("05:00:00")), firing.next);
    }
}

#[test]
fn e01_exhausted_is_not_a_null_plan() {
    let never = TimingSpec::Cron {
        expression: "*/5 2 8-14 3 */7".into(),
        timezone: "America/New_York".into(),
        dst: Dst::default(),
    };
    assert_eq!(fired(&schedule(never, |_| ()), "05:00:00"), "exhausted");
    let ended = schedule(TimingSpec::cron("* * * * *", "UTC"), |d| d.ends_at = Some(at("00:00:30")));
    assert_eq!(fired(&ended, "05:00:00"), "exhausted");
}

#[test]
fn d02_a_clock_that_goes_back_fires_nothing_again() {
    for missed in [Missed::SKIP, Missed::ONCE, Missed::all(100)] {
        let mut schedule = minutely(missed);
        fire_and_store(&mut schedule, at("00:10:00"), &Facts::default());
        assert_eq!(fired(&schedule, "00:03:00"), "next 00:11:00");
        // Also when the plan was lost, or made under the wrong clock.
        schedule.state.next_slot_at = None;
        assert_eq!(fired(&schedule, "00:03:00"), "next 00:11:00");
        force_plan(&mut schedule, "00:04:00", "00:04:00");
        assert_eq!(fired(&schedule, "00:04:00"), "next 00:11:00");
        // Pruning the ledger changes nothing: `fired_through` is enough.
        schedule.state.last_slot_at = None;
        assert_eq!(fired(&schedule, "00:04:00"), "next 00:11:00");
    }
}

#[test]
fn d02_a_schedule_made_under_a_clock_that_ran_ahead_is_planned_once() {
    let mut schedule = minutely(Missed::ONCE);
    schedule.state.next_slot_at = None;
    let plan = schedule.plan_next(at("2026-02-28T20:00:30Z"));
    assert_eq!(plan, Next::Slot(NextSlot { slot_at: at("00:01:00"), run_at: at("00:01:00") }));
    store_plan(&mut schedule, &plan);
    assert!(schedule.plan_is_sound(), "else it would be planned anew for ever, and never fire");
}

proptest! {
    #![proptest_config(config(5_000))]

    /// The reconciler finds nothing to do in normal running: what is planned is trusted.
    #[test]
    fn a08_every_plan_that_is_made_is_sound(
        now in -200_000_i64..2_000_000,
        decided in proptest::option::of(-200_000_i64..2_000_000),
        jitter in prop_oneof![Just(0_i64), 1_i64..90_000],
        period in prop_oneof![Just(None), (1_i64..200_000).prop_map(Some)],
    ) {
        let timing = period.map_or_else(
            || TimingSpec::cron("*/20 3-17 * * *", "Europe/Berlin"),
            |period| TimingSpec::Every { period: secs(period) },
        );
        let mut schedule = schedule(timing, |d| d.jitter = secs(jitter));
        schedule.state.last_slot_at = decided.map(|seconds| at("00:00:00") + secs(seconds));
        schedule.state.fired_through = schedule.state.last_slot_at;
        let plan = schedule.plan_next(at("00:00:00") + secs(now));
        store_plan(&mut schedule, &plan);
        prop_assert!(schedule.plan_is_sound(), "{plan:?}");
    }
}
