//! Cron expressions and the time zones they are read in.
//!
//! [`Cron`] is an expression, read once into bit masks. [`CronClock`] puts it into a time zone with
//! a rule for clock changes ([`Dst`]) and answers when it fires. [`Recurrence`] is an expression or
//! an interval (`@every 90s`).
//!
//! The rule in short: expressions are matched in wall-clock time, then mapped through the zone. A
//! *fixed-time* job (no second, minute or hour field starts with `*`) fires once for each date it
//! names, also when the clock skips or repeats that time; every other job follows the wall clock as
//! it is shown.
//!
//! ```
//! use punctual_core::cron::{Cron, CronClock, Dst, zone};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = CronClock::new(Cron::parse("0 8 * * 1-5")?, zone("Europe/Berlin")?, Dst::default());
//! let friday = "2026-10-23T12:00:00Z".parse()?;
//! // The clocks go back on Sunday; Monday 08:00 is an hour later in UTC.
//! assert_eq!(clock.next_after(friday), Some("2026-10-26T07:00:00Z".parse()?));
//! # Ok(())
//! # }
//! ```

mod calendar;
mod clock;
mod describe;
mod error;
mod notes;
mod parse;
mod presets;
mod recurrence;
mod spread;
#[cfg(test)]
mod tests;
mod zone;

pub use clock::{CronClock, Dst, DstGap, DstOverlap, Fires, UnknownDstWord};
pub use describe::{FieldMeaning, describe, field_meanings};
pub use error::{CronError, CronProblem, Field};
pub use notes::{CronWarning, DstChange, DstNote, dst_notes, lint};
pub use presets::{CronPreset, built_in_presets};
pub use recurrence::{Recurrence, RecurrenceError};
pub use zone::{ZoneError, zone};

use calendar::{Calendar, TimeMask};
use parse::{FieldSet, field_set};

/// Longer expressions are refused before any work is done.
pub const MAX_EXPRESSION_BYTES: usize = 1024;

/// The years searched for the next fire; the longest real wait, a 29 February on a given weekday
/// across a year that is no leap year, is 40.
pub const HORIZON_YEARS: i64 = 41;

/// A cron expression of five fields, or of six with seconds first.
///
/// ```
/// use punctual_core::cron::Cron;
///
/// assert!(Cron::parse("30 2 * * MON-FRI").is_ok());
/// assert!(Cron::parse("*/10 30 2 L * *").is_ok());
/// assert!(Cron::parse("0 0 30 2 *").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    expression: String,
    calendar: Calendar,
    fixed_time: bool,
}

impl Cron {
    /// Reads an expression. `H` and `~` are refused: they need [`Cron::parse_seeded`].
    pub fn parse(expr: &str) -> Result<Cron, CronError> {
        Cron::read(expr, None)
    }

    /// Reads an expression in which `H` and `~` take values fixed by `seed`.
    ///
    /// ```
    /// use punctual_core::cron::Cron;
    ///
    /// let nightly = Cron::parse_seeded("H H(1-4) * * *", "backup")?;
    /// assert_eq!(nightly, Cron::parse_seeded("H H(1-4) * * *", "backup")?);
    /// # Ok::<(), punctual_core::cron::CronError>(())
    /// ```
    pub fn parse_seeded(expr: &str, seed: &str) -> Result<Cron, CronError> {
        Cron::read(expr, Some(seed))
    }

    fn read(expr: &str, seed: Option<&str>) -> Result<Cron, CronError> {
        if expr.len() > MAX_EXPRESSION_BYTES {
            return Err(whole(CronProblem::TooLong(expr.len())));
        }
        let trimmed = expr.trim_matches(|c: char| c.is_ascii_whitespace());
        let cron = match trimmed.strip_prefix('@') {
            Some(word) => Cron::read_fields(expand(word)?, None)?,
            None => Cron::read_fields(expr, seed)?,
        };
        Ok(Cron { expression: trimmed.to_owned(), ..cron })
    }

    fn read_fields(expr: &str, seed: Option<&str>) -> Result<Cron, CronError> {
        let places = split(expr);
        // Five fields leave the seconds out; they are 0 and then say nothing about fixed times.
        let (seconds, rest) = match places.len() {
            0 => return Err(whole(CronProblem::Empty)),
            5 => (FieldSet { bits: 1, ..FieldSet::default() }, &places[..]),
            6 => (read_field(expr, places[0], Field::Second, seed)?, &places[1..]),
            count => return Err(whole(CronProblem::FieldCount(count))),
        };
        let minutes = read_field(expr, rest[0], Field::Minute, seed)?;
        let hours = read_field(expr, rest[1], Field::Hour, seed)?;
        let of_month = read_field(expr, rest[2], Field::DayOfMonth, seed)?;
        let months = read_field(expr, rest[3], Field::Month, seed)?;
        let of_week = read_field(expr, rest[4], Field::DayOfWeek, seed)?;

        let mut days = of_month.special;
        days.of_month = u32::try_from(of_month.bits).unwrap_or(0);
        days.of_week = u8::try_from(of_week.bits).unwrap_or(0);
        days.last_of_week = of_week.special.last_of_week;
        days.nth_of_week = of_week.special.nth_of_week;
        days.either = !of_month.starred && !of_week.starred;
        let months = u16::try_from(months.bits).unwrap_or(0);
        if !days.is_possible(months) {
            let column = column_of(expr, rest[2].0);
            let field = Some(Field::DayOfMonth);
            let problem = CronProblem::ImpossibleDate;
            return Err(CronError { field, column: Some(column), problem });
        }
        let fixed_time = !(seconds.starred || minutes.starred || hours.starred);
        let time = TimeMask { seconds: seconds.bits, minutes: minutes.bits, hours: hours.bits };
        let calendar = Calendar { time, days, months };
        Ok(Cron { expression: String::new(), calendar, fixed_time })
    }

    /// The text it was read from, without blanks at the ends.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Whether no second, minute or hour field starts with `*`; only then do the choices of
    /// [`Dst`] apply.
    pub fn is_fixed_time(&self) -> bool {
        self.fixed_time
    }
}

impl std::fmt::Display for Cron {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.expression)
    }
}

impl std::str::FromStr for Cron {
    type Err = CronError;

    fn from_str(expr: &str) -> Result<Cron, CronError> {
        Cron::parse(expr)
    }
}

fn whole(problem: CronProblem) -> CronError {
    CronError { field: None, column: None, problem }
}

fn column_of(expr: &str, offset: usize) -> usize {
    expr[..offset].chars().count() + 1
}

/// The fields with their byte offsets.
fn split(expr: &str) -> Vec<(usize, &str)> {
    let mut behind = 0;
    expr.split_ascii_whitespace()
        .map(|text| {
            // Only blanks lie between, so the first hit is the field itself.
            let offset = behind + expr[behind..].find(text).unwrap_or(0);
            behind = offset + text.len();
            (offset, text)
        })
        .collect()
}

fn read_field(
    expr: &str, (offset, text): (usize, &str), field: Field, seed: Option<&str>,
) -> Result<FieldSet, CronError> {
    field_set(expr, offset, text, field, seed)
}

/// The fields of an accepted expression by name, those of its meaning for a word such as `@daily`.
fn field_texts(expression: &str) -> Vec<(Field, &str)> {
    let fields = match expression.strip_prefix('@') {
        Some(word) => expand(word).unwrap_or_default(),
        None => expression,
    };
    let places = split(fields);
    let names = [Field::Second, Field::Minute, Field::Hour, Field::DayOfMonth, Field::Month, Field::DayOfWeek];
    let unused = names.len().saturating_sub(places.len());
    names.into_iter().skip(unused).zip(places.into_iter().map(|(_, text)| text)).collect()
}

fn expand(word: &str) -> Result<&'static str, CronError> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "yearly" | "annually" => "0 0 1 1 *",
        "monthly" => "0 0 1 * *",
        "weekly" => "0 0 * * 0",
        "daily" | "midnight" => "0 0 * * *",
        "hourly" => "0 * * * *",
        "reboot" => return Err(whole(CronProblem::Reboot)),
        other if other == "every" || other.starts_with("every ") => {
            return Err(whole(CronProblem::Every));
        }
        _ => {
            let shown: String = word.chars().take(20).collect();
            return Err(whole(CronProblem::UnknownMacro(format!("@{shown}"))));
        }
    })
}
