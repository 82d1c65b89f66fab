//! When a schedule is due: a cron expression, an elapsed time, or a single instant, as slots on one line.

use crate::cron::{self, Dst, Recurrence};
use crate::duration;
use crate::invalid::Invalid;
use jiff::{SignedDuration, Timestamp};

/// The shortest `every`.
pub const EVERY_MIN: SignedDuration = SignedDuration::from_secs(1);

/// When a schedule is due, as it is stored. It may have reached the table without ever having been checked (E02),
/// so it is text until [`TimingSpec::compile`] has understood it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimingSpec {
    /// A cron expression, read in a time zone.
    Cron {
        /// The expression.
        expression: String,
        /// The zone's IANA name.
        timezone: String,
        /// What to do about clock changes.
        dst: Dst,
    },
    /// Elapsed time; no zone, no clock changes.
    Every {
        /// From one slot to the next.
        period: SignedDuration,
    },
    /// A single instant.
    At {
        /// When.
        at: Timestamp,
    },
}

impl TimingSpec {
    /// A cron expression with the default rules for clock changes.
    pub fn cron(expression: impl Into<String>, timezone: impl Into<String>) -> Self {
        Self::Cron { expression: expression.into(), timezone: timezone.into(), dst: Dst::default() }
    }

    /// Understands it. `anchor` fixes the phase of `every`; `seed` fixes the value of a spread field (`H`, `~`).
    pub fn compile(&self, anchor: Timestamp, seed: &str) -> Result<Timing, Invalid> {
        match self {
            Self::Cron { expression, timezone, dst } => {
                let zone = cron::zone(timezone).map_err(|e| Invalid::new("timezone", e.to_string()))?;
                match Recurrence::parse(expression, Some(seed)).map_err(|e| Invalid::new("cron", e.to_string()))? {
                    Recurrence::Cron(cron) => Ok(Timing::Cron(cron::CronClock::new(cron, zone, *dst))),
                    Recurrence::Every(period) => Timing::every(anchor, period),
                }
            }
            Self::Every { period } => Timing::every(anchor, *period),
            Self::At { at } => Ok(Timing::At(*at)),
        }
    }

    /// How it is written in a run's trigger detail: the expression, `@every 1m30s`, or `@at 2026-12-01T08:00:00Z`.
    pub fn text(&self) -> String {
        match self {
            Self::Cron { expression, .. } => expression.clone(),
            Self::Every { period } => format!("@every {}", duration::format_duration(*period)),
            Self::At { at } => format!("@at {at}"),
        }
    }
}

/// When a schedule is due, understood: a line of instants, each later than the one before.
#[derive(Debug, Clone)]
pub enum Timing {
    /// Wall-clock times in a zone.
    Cron(cron::CronClock),
    /// The anchor plus whole multiples of the period.
    Every {
        /// What the multiples count from; itself no slot.
        anchor: Timestamp,
        /// From one slot to the next.
        period: SignedDuration,
    },
    /// One slot.
    At(Timestamp),
}

impl Timing {
    fn every(anchor: Timestamp, period: SignedDuration) -> Result<Self, Invalid> {
        if period < EVERY_MIN {
            return Err(Invalid::new("every", "is shorter than one second").remedy("use 1s or more"));
        }
        Ok(Self::Every { anchor, period })
    }

    /// The first slot strictly after an instant, or `None` when there is none any more.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(clock) => clock.next_after(after),
            Self::Every { anchor, period } => nth(*anchor, *period, periods(*anchor, *period, after).max(0) + 1),
            Self::At(at) => (*at > after).then_some(*at),
        }
    }

    /// The last slot at or before an instant.
    pub fn latest_at_or_before(&self, at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Cron(clock) => clock.latest_at_or_before(at),
            Self::Every { anchor, period } => {
                let n = periods(*anchor, *period, at);
                if n < 1 { None } else { nth(*anchor, *period, n) }
            }
            Self::At(slot) => (*slot <= at).then_some(*slot),
        }
    }

    /// How many slots lie after one instant and at or before another; in bounded work, however many there are.
    pub fn count_between(&self, after: Timestamp, until: Timestamp) -> u64 {
        match self {
            _ if until <= after => 0,
            Self::Cron(clock) => clock.count_between(after, until),
            Self::Every { anchor, period } => {
                let slots = periods(*anchor, *period, until).max(0) - periods(*anchor, *period, after).max(0);
                u64::try_from(slots).unwrap_or(0)
            }
            Self::At(slot) => u64::from(after < *slot && *slot <= until),
        }
    }
}

/// How many whole periods have passed since the anchor.
fn periods(anchor: Timestamp, period: SignedDuration, at: Timestamp) -> i128 {
    (whole_micros(at) - whole_micros(anchor)).div_euclid(period.as_micros())
}

fn nth(anchor: Timestamp, period: SignedDuration, n: i128) -> Option<Timestamp> {
    let micros = whole_micros(anchor) + n * period.as_micros();
    Timestamp::from_microsecond(i64::try_from(micros).ok()?).ok()
}

/// The microsecond that holds an instant; rounded down also before 1970, where `as_microsecond` rounds up.
fn whole_micros(at: Timestamp) -> i128 {
    at.as_nanosecond().div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn d05_every_counts_elapsed_time_and_keeps_its_phase() {
        let spec = TimingSpec::cron("@every 1h30m", "America/New_York");
        let timing = spec.compile(at("2025-03-09T06:00:00Z"), "s").unwrap();
        assert_eq!(timing.next_after(at("2025-03-09T06:00:00Z")), Some(at("2025-03-09T07:30:00Z")));
        assert_eq!(timing.next_after(at("2025-03-09T07:30:00Z")), Some(at("2025-03-09T09:00:00Z")));
        assert_eq!(timing.next_after(at("2025-03-09T08:59:59.999999Z")), Some(at("2025-03-09T09:00:00Z")));
        assert_eq!(timing.latest_at_or_before(at("2025-03-09T08:00:00Z")), Some(at("2025-03-09T07:30:00Z")));
        assert_eq!(timing.latest_at_or_before(at("2025-03-09T07:00:00Z")), None);
        assert_eq!(timing.count_between(at("2025-03-09T00:00:00Z"), at("2025-03-09T09:00:00Z")), 2);
    }

    #[test]
    fn d05_at_is_one_slot() {
        let timing = TimingSpec::At { at: at("2026-01-01T00:00:00Z") }.compile(Timestamp::UNIX_EPOCH, "s").unwrap();
        assert_eq!(timing.next_after(at("2025-12-31T23:59:59Z")), Some(at("2026-01-01T00:00:00Z")));
        assert_eq!(timing.next_after(at("2026-01-01T00:00:00Z")), None);
        assert_eq!(timing.count_between(Timestamp::MIN, Timestamp::MAX), 1);
    }

    #[test]
    fn e02_what_cannot_be_understood_says_which_part() {
        let refused = |spec: TimingSpec| spec.compile(Timestamp::UNIX_EPOCH, "s").unwrap_err().field;
        assert_eq!(refused(TimingSpec::cron("0 0 * *", "UTC")), "cron");
        assert_eq!(refused(TimingSpec::cron("@daily", "Mars/Olympus")), "timezone");
        assert_eq!(refused(TimingSpec::Every { period: SignedDuration::from_millis(5) }), "every");
    }
}
