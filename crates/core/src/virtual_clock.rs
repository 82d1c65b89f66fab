//! A clock that stands still until somebody turns it: for tests of this project and of programs that embed it.

use crate::store::Clock;
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering};

/// Microseconds since 1970 of 2026-03-01T00:00:00Z, a Sunday: the instant at which every virtual clock starts, so that
/// no test depends on the day on which it is run.
const START_MICROS: i64 = 1_772_323_200_000_000;

/// A [`Clock`] that tests set and advance; it may also be turned back, as a real one is by a correction.
#[derive(Debug)]
pub struct VirtualClock {
    micros: AtomicI64,
}

impl VirtualClock {
    /// A clock that stands at 2026-03-01T00:00:00Z.
    pub fn new() -> Self {
        Self { micros: AtomicI64::new(START_MICROS) }
    }

    /// The instant at which every virtual clock starts.
    pub fn start() -> Timestamp {
        Timestamp::from_microsecond(START_MICROS).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Sets the clock; what is finer than a microsecond is dropped, as the stores do.
    pub fn set(&self, to: Timestamp) {
        self.micros.store(to.as_microsecond(), Ordering::SeqCst);
    }

    /// Moves the clock, also backwards, and says what it shows then; it stops at either end of time.
    pub fn advance(&self, by: SignedDuration) -> Timestamp {
        let to =
            self.now().saturating_add(by).unwrap_or(if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX });
        self.set(to);
        self.now()
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.micros.load(Ordering::SeqCst)).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d02_the_clock_moves_only_when_it_is_turned() {
        let clock = VirtualClock::new();
        assert_eq!(clock.now(), "2026-03-01T00:00:00Z".parse::<Timestamp>().unwrap());
        assert_eq!(clock.advance(SignedDuration::from_micros(90_000_001)).to_string(), "2026-03-01T00:01:30.000001Z");
        clock.advance(SignedDuration::from_secs(-90));
        assert_eq!(clock.now().to_string(), "2026-03-01T00:00:00.000001Z");
        clock.set(VirtualClock::start());
        assert_eq!(clock.now(), VirtualClock::start());
    }
}
