//! Work is bounded: a year of a per-second schedule is decided without looking at each slot.

use super::*;

/// The most questions that one decision may ask, whatever it has to decide: some for each slot that fires, and a
/// few dozen for finding where to begin.
pub(super) const STEPS_PER_DECISION: u64 = 4 * SLOTS_PER_PASS as u64 + 400;

#[test]
fn a05_a_year_of_every_second_is_decided_in_bounded_work() {
    let year = SignedDuration::from_hours(24 * 365);
    let timings = [
        TimingSpec::cron("* * * * * *", "America/New_York"),
        TimingSpec::cron("@every 1s", "UTC"),
        TimingSpec::Every { period: secs(1) },
    ];
    let policies = [
        Missed::SKIP,
        Missed::Skip { window: year },
        Missed::ONCE,
        Missed::Once { window: Some(mins(5)) },
        Missed::all(1),
        Missed::all(100),
        Missed::all(100_000),
        Missed::All { limit: 100_000, window: Some(mins(10)) },
        Missed::All { limit: 100_000, window: Some(year * 2) },
    ];
    let now = at("00:00:00") + year;
    for timing in &timings {
        for missed in policies {
            for jitter in [0, 1, 3600] {
                let schedule = schedule(timing.clone(), |d| {
                    d.missed = missed;
                    d.jitter = secs(jitter);
                });
                let (firing, steps) = steps_of(|| schedule.fire(now, &Facts::default()));
                assert!(steps <= STEPS_PER_DECISION, "{missed:?}, jitter {jitter}s: {steps} steps");
                assert!(firing.slots.len() <= SLOTS_PER_PASS + 1);
                let decided: u64 = firing.slots.iter().map(|slot| slot.count).sum();
                assert!(firing.next != Next::Exhausted && decided > 0);
                if !matches!(missed, Missed::All { limit: 100_000, .. }) {
                    let total = 365 * 86_400;
                    assert!((total - 1..=total).contains(&decided), "{missed:?}: {decided} of {total}");
                }
            }
        }
    }
}

#[test]
fn a07_catching_up_on_the_limit_takes_as_many_passes_as_it_must() {
    let mut schedule = schedule(TimingSpec::cron("* * * * * *", "UTC"), |d| d.missed = Missed::all(1000));
    let now = at("00:00:00") + SignedDuration::from_hours(24 * 365);
    let mut fires = 0;
    let mut passes = 0;
    while schedule.state.next_run_at.is_some_and(|due| due <= now) {
        let firing = fire_and_store(&mut schedule, now, &Facts::default());
        fires += firing.slots.iter().filter(|slot| slot.job.is_some()).count();
        passes += 1;
    }
    assert_eq!((fires, passes), (1000, 4));
}
