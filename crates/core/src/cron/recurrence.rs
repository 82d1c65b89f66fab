//! What makes a schedule recur: a cron expression, or an interval of elapsed time.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::clock::Walk;
use super::{Cron, CronError, Dst};
use crate::duration::{DurationError, format_duration, parse_duration};

/// A cron expression or `@every` with a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// Times of the calendar, in a zone.
    Cron(Cron),
    /// Elapsed time from the previous slot; clocks and zones play no part. Whole seconds.
    Every(SignedDuration),
}

/// Text that is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecurrenceError {
    /// Not a cron expression.
    #[error(transparent)]
    Cron(#[from] CronError),
    /// `@every` with something that is no duration.
    #[error("@every: {0}")]
    Every(#[from] DurationError),
    /// `@every` below a second, or with a part of one.
    #[error("@every: {} is not whole seconds; use 1s or more", format_duration(*.0))]
    NotWholeSeconds(SignedDuration),
}

impl Recurrence {
    /// Reads `@every 1h30m`, or else a cron expression with its seed for `H` and `~`, if any.
    ///
    /// ```
    /// use punctual_core::cron::{Dst, Recurrence, zone};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let every = Recurrence::parse("@every 1h30m", None)?;
    /// let slot = "2025-03-09T06:00:00Z".parse()?;
    /// let next = every.next_after(slot, &zone("America/New_York")?, Dst::default());
    /// assert_eq!(next, Some("2025-03-09T07:30:00Z".parse()?));
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse(expr: &str, seed: Option<&str>) -> Result<Recurrence, RecurrenceError> {
        if let Some(text) = interval(expr) {
            let every = parse_duration(text)?;
            if every.subsec_nanos() != 0 {
                return Err(RecurrenceError::NotWholeSeconds(every));
            }
            return Ok(Recurrence::Every(every));
        }
        let cron = match seed {
            Some(seed) => Cron::parse_seeded(expr, seed),
            None => Cron::parse(expr),
        };
        Ok(Recurrence::Cron(cron?))
    }

    /// The first slot after `after`, which for `Every` is the previous slot.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone, dst: Dst) -> Option<Timestamp> {
        match self {
            Recurrence::Cron(cron) => Walk::new(cron, zone, dst).next_after(after),
            Recurrence::Every(every) => after.checked_add(*every).ok(),
        }
    }
}

impl std::fmt::Display for Recurrence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Recurrence::Cron(cron) => cron.fmt(f),
            Recurrence::Every(every) => write!(f, "@every {}", format_duration(*every)),
        }
    }
}

/// The text behind `@every`, if that is what the expression is.
fn interval(expr: &str) -> Option<&str> {
    let expr = expr.trim_matches(|c: char| c.is_ascii_whitespace());
    let (word, rest) = expr.split_at_checked(6)?;
    let separated = rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace());
    (word.eq_ignore_ascii_case("@every") && separated).then(|| rest.trim_ascii_start())
}
