//! The cap on fires: how many slots may still fire now, so that no second, wherever it begins, holds more than allowed.

use crate::firing::{Facts, Next};
use crate::invalid::Invalid;
use crate::schedule::Schedule;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The largest cap; more is no cap.
pub const PER_SECOND_MAX: u32 = 1_000_000;

/// Fires this close together are remembered as one, at the later time: that forgets none too early, and bounds what is
/// remembered.
const GRAIN_MICROS: i64 = 10_000;

const SECOND_MICROS: i64 = 1_000_000;

/// The cap and what it must remember: when slots fired in the last second, and since when some had to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FireCap {
    /// The most in any second.
    pub per_second: u32,
    /// What fired lately: instants in microseconds, rising, and how many.
    #[serde(default)]
    pub recent: Vec<(i64, u32)>,
    /// When the first of those that wait now was due.
    #[serde(default)]
    pub held_since: Option<i64>,
}

impl FireCap {
    /// A cap under which nothing has fired yet.
    pub fn new(per_second: u32) -> Result<Self, Invalid> {
        if !(1..=PER_SECOND_MAX).contains(&per_second) {
            return Err(Invalid::new("fires_per_second", format!("is not between 1 and {PER_SECOND_MAX}"))
                .remedy("leave it out to lift the cap, or pause the schedules to stop them"));
        }
        Ok(Self { per_second, recent: Vec::new(), held_since: None })
    }

    /// How many more may fire at an instant.
    pub fn room(&self, now: Timestamp) -> usize {
        let now = now.as_microsecond();
        let lately: u64 = self.counted(now).map(|(_, count)| u64::from(*count)).sum();
        usize::try_from(u64::from(self.per_second).saturating_sub(lately)).unwrap_or(usize::MAX)
    }

    /// How long until one more may fire; zero when it may now.
    pub fn free_in(&self, now: Timestamp) -> SignedDuration {
        if self.room(now) > 0 {
            return SignedDuration::ZERO;
        }
        let now = now.as_microsecond();
        let oldest = self.counted(now).map(|(at, _)| *at).min().unwrap_or(now);
        SignedDuration::from_micros((oldest + SECOND_MICROS - now).max(0))
    }

    /// Notes that so many fired.
    pub fn take(&mut self, now: Timestamp, fired: usize) {
        let now = now.as_microsecond();
        self.recent.retain(|(at, _)| counts(*at, now));
        let fired = u32::try_from(fired).unwrap_or(u32::MAX);
        if fired == 0 {
            return;
        }
        // Nodes come here one after the other, and may have begun in another order.
        let at = self.recent.last().map_or(now, |(at, _)| now.max(*at));
        match self.recent.last_mut() {
            Some((last, count)) if at / GRAIN_MICROS == *last / GRAIN_MICROS => {
                (*last, *count) = (at, count.saturating_add(fired));
            }
            _ => self.recent.push((at, fired)),
        }
    }

    /// Notes what had to wait: the time at which the first of it was due, or that nothing did.
    pub fn hold(&mut self, first_due: Option<Timestamp>) {
        let due = first_due.map(Timestamp::as_microsecond);
        self.held_since = due.map(|due| self.held_since.map_or(due, |since| since.min(due)));
    }

    /// Since when something has had to wait.
    pub fn held_since(&self) -> Option<Timestamp> {
        self.held_since.and_then(|micros| Timestamp::from_microsecond(micros).ok())
    }

    fn counted(&self, now: i64) -> impl Iterator<Item = &(i64, u32)> {
        self.recent.iter().filter(move |(at, _)| counts(*at, now))
    }
}

/// The cap during one pass over what is due: who may fire, and who has to wait. Without a cap, everybody may.
#[derive(Debug, Clone, Default)]
pub struct CappedPass {
    cap: Option<FireCap>,
    held: Option<Timestamp>,
}

impl CappedPass {
    /// A pass under the cap that is set, if one is.
    pub fn new(cap: Option<FireCap>) -> Self {
        Self { cap, held: None }
    }

    /// Whether there is a cap at all.
    pub fn is_capped(&self) -> bool {
        self.cap.is_some()
    }

    /// Whether a schedule may be decided now. It may not fire more slots than `facts` says then.
    pub fn admits(&mut self, schedule: &Schedule, now: Timestamp, facts: &mut Facts) -> bool {
        let Some(cap) = self.cap.as_ref().filter(|_| counts_towards(schedule)) else { return true };
        let Some(due) = schedule.state.next_run_at else { return true };
        facts.room = Some(cap.room(now));
        facts.held_since = cap.held_since();
        let admitted = facts.room != Some(0);
        if !admitted {
            self.hold(due);
        }
        admitted
    }

    /// Notes what was decided: how many slots fired, and whether the next one is due already.
    pub fn fired(&mut self, schedule: &Schedule, now: Timestamp, jobs: usize, next: &Next) {
        let Some(cap) = self.cap.as_mut().filter(|_| counts_towards(schedule)) else { return };
        cap.take(now, jobs);
        match next {
            Next::Slot(next) if next.run_at <= now => self.hold(next.run_at),
            _ => {}
        }
    }

    fn hold(&mut self, due: Timestamp) {
        self.held = Some(self.held.map_or(due, |held| held.min(due)));
    }

    /// What is to be stored at the end, if there is a cap.
    pub fn ended(mut self) -> Option<FireCap> {
        if let Some(cap) = &mut self.cap {
            cap.hold(self.held);
        }
        self.cap
    }
}

fn counts_towards(schedule: &Schedule) -> bool {
    !schedule.definition.burst_allowed
}

/// Whether a fire belongs to the second that ends now. One far ahead was noted under a clock that has gone back.
fn counts(at: i64, now: i64) -> bool {
    at > now - SECOND_MICROS && at < now + 60 * SECOND_MICROS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap()
    }

    #[test]
    fn d10_a_cap_gives_room_for_so_many_in_a_second_and_more_when_they_are_a_second_old() {
        let mut cap = FireCap::new(3).unwrap();
        assert_eq!((cap.room(at(0)), cap.free_in(at(0))), (3, SignedDuration::ZERO));
        cap.take(at(0), 2);
        assert_eq!(cap.room(at(500_000)), 1);
        cap.take(at(500_000), 1);
        assert_eq!((cap.room(at(999_999)), cap.free_in(at(999_999))), (0, SignedDuration::from_micros(1)));
        assert_eq!((cap.room(at(1_000_000)), cap.room(at(1_500_000))), (2, 3));
        cap.take(at(1_500_000), 0);
        assert_eq!(cap.recent, []);
    }

    #[test]
    fn d10_what_waits_is_known_by_its_first_until_nothing_does() {
        let mut cap = FireCap::new(1).unwrap();
        cap.hold(Some(at(5)));
        cap.hold(Some(at(9)));
        assert_eq!(cap.held_since(), Some(at(5)));
        cap.hold(None);
        assert_eq!(cap.held_since(), None);
    }

    #[test]
    fn d10_a_clock_that_has_gone_back_far_does_not_stop_all_fires() {
        let mut cap = FireCap::new(1).unwrap();
        cap.take(at(3_600_000_000), 1);
        assert_eq!(cap.room(at(0)), 1);
        cap.take(at(0), 1);
        assert_eq!(cap.room(at(1)), 0);
    }

    #[test]
    fn d10_a_cap_of_nothing_or_of_too_much_is_refused() {
        assert!(FireCap::new(0).is_err() && FireCap::new(PER_SECOND_MAX + 1).is_err());
        assert!(FireCap::new(PER_SECOND_MAX).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whoever takes no more than the room there is never has more than the cap in any second, and gets the whole
        /// cap again and again.
        #[test]
        fn d10_no_second_holds_more_than_the_cap(
            per_second in 1u32..40, steps in proptest::collection::vec((0i64..120_000, 0usize..30), 1..200),
        ) {
            let mut cap = FireCap::new(per_second).unwrap();
            let mut fired: Vec<i64> = Vec::new();
            let mut now = 0;
            for (passed, wanted) in steps {
                now += passed;
                let taken = wanted.min(cap.room(at(now)));
                cap.take(at(now), taken);
                fired.extend(std::iter::repeat_n(now, taken));
                let in_second = fired.iter().filter(|at| **at > now - SECOND_MICROS).count();
                prop_assert!(in_second <= per_second as usize, "{in_second} at {now}");
                prop_assert!(cap.recent.len() <= 102, "{} are remembered", cap.recent.len());
            }
            prop_assert_eq!(cap.room(at(now + SECOND_MICROS + GRAIN_MICROS)), per_second as usize);
        }
    }
}
