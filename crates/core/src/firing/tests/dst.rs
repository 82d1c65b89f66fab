//! Firing through a year of clock changes in several zones: what the clock names fires, once, and nothing else.

use super::*;
use crate::cron::{Cron, CronClock, Dst, DstGap, DstOverlap, zone};

/// Zones with a year in which their clocks change: by an hour, by half an hour, at midnight, by a whole day, by two
/// hours, and in the middle of a fasting month.
const ZONES: [(&str, i16); 9] = [
    ("Europe/Berlin", 2026),
    ("America/New_York", 2025),
    ("Australia/Lord_Howe", 2024),
    ("America/Santiago", 2025),
    ("Africa/Cairo", 2024),
    ("Africa/Casablanca", 2025),
    ("Antarctica/Troll", 2025),
    ("Pacific/Apia", 2011),
    ("UTC", 2026),
];

const EXPRESSIONS: [&str; 8] = [
    "0 * * * *",
    "*/30 1-3 * * *",
    "30 0 * * *",
    "0 2 * * *",
    "15,45 2 * * *",
    "30 1,2 * * 0,6",
    "59 23 L * *",
    "0 0 1 * *",
];

const CHOICES: [Dst; 3] = [
    Dst { gap: DstGap::Next, overlap: DstOverlap::First },
    Dst { gap: DstGap::Skip, overlap: DstOverlap::Second },
    Dst { gap: DstGap::Next, overlap: DstOverlap::Both },
];

/// What the clock itself names within the year.
fn fires_of(expression: &str, name: &str, dst: Dst, from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let clock = CronClock::new(Cron::parse(expression).unwrap(), zone(name).unwrap(), dst);
    clock.fires_after(from).take_while(|fire| *fire <= until).collect()
}

fn year_of(year: i16) -> (Timestamp, Timestamp) {
    let begin = |year: i16| at(&format!("{year}-01-01T00:00:00Z"));
    (begin(year), begin(year + 1))
}

fn for_each_case(mut check: impl FnMut(&str, &str, Dst, Timestamp, Timestamp)) {
    for (name, year) in ZONES {
        let (from, until) = year_of(year);
        for expression in EXPRESSIONS {
            // A wildcard job follows the clock as it is shown; the choices say nothing about it.
            let choices = if Cron::parse(expression).unwrap().is_fixed_time() { &CHOICES[..] } else { &CHOICES[..1] };
            for dst in choices.iter().copied() {
                check(expression, name, dst, from, until);
            }
        }
    }
}

fn schedule_in(expression: &str, name: &str, dst: Dst, from: Timestamp, missed: Missed) -> Schedule {
    let timing = TimingSpec::Cron { expression: expression.into(), timezone: name.into(), dst };
    schedule_made_at(from, timing, |definition| definition.missed = missed)
}

#[test]
fn a05_firing_step_by_step_through_a_year_is_the_clocks_own_list() {
    let mut total = 0;
    for_each_case(|expression, name, dst, from, until| {
        let policies = [Missed::SKIP, Missed::ONCE, Missed::all(100)];
        let missed = policies[total % policies.len()];
        let mut schedule = schedule_in(expression, name, dst, from, missed);
        let mut fires = Vec::new();
        while let Some(due) = schedule.state.next_run_at.filter(|due| *due <= until) {
            let firing = fire_and_store(&mut schedule, due, &Facts::default());
            let [slot] = firing.slots.as_slice() else { panic!("{expression} in {name}: {firing:?}") };
            assert_eq!((slot.decision, slot.reason, slot.late_ms), (Decision::Fired, Reason::OnTime, 0));
            fires.push(slot.slot_at);
        }
        assert!(fires.windows(2).all(|pair| pair[0] < pair[1]), "{expression} in {name}: nothing twice");
        assert_eq!(fires, fires_of(expression, name, dst, from, until), "{expression} in {name} with {dst:?}");
        total += fires.len();
    });
    assert!(total > 100_000, "{total} fires");
}

#[test]
fn e03_downtime_over_a_clock_change_decides_what_the_clock_names() {
    for_each_case(|expression, name, dst, from, until| {
        let mut schedule = schedule_in(expression, name, dst, from, Missed::ONCE);
        let named = fires_of(expression, name, dst, from, until);
        let mut decided = 0;
        let mut now = from;
        // Up for a moment every 41 hours, so that wake-ups fall before, into and behind every change.
        while now < until {
            now += SignedDuration::from_mins(41 * 60 + 7);
            if schedule.state.next_run_at.is_none_or(|due| due > now) {
                continue;
            }
            let firing = fire_and_store(&mut schedule, now, &Facts::default());
            for slot in &firing.slots {
                let up_to = |end: Timestamp| named.partition_point(|fire| *fire <= end);
                let held = up_to(slot.through) - up_to(just_before(slot.slot_at));
                if slot.through <= until {
                    assert_eq!(slot.count, held as u64, "{expression} in {name} with {dst:?} at {now}");
                }
            }
            let fires: Vec<_> = firing.slots.iter().filter(|slot| slot.job.is_some()).collect();
            assert_eq!(fires.len(), 1, "one run, however many were missed");
            decided += firing.slots.iter().map(|slot| slot.count).sum::<u64>();
        }
        assert!(decided >= named.len() as u64, "{expression} in {name}: {decided} of {}", named.len());
    });
}
