//! Lengths of time as people write them: `90s`, `5m`, `1h30m`, `1d`, `500ms`.

use jiff::SignedDuration;

/// A hundred years; longer durations are refused, so that adding one to a time cannot overflow.
pub const MAX_DURATION: SignedDuration = SignedDuration::from_hours(36_525 * 24);

const MAX_TEXT_BYTES: usize = 64;

/// Units from large to small, with their milliseconds.
const UNITS: [(&str, i64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Text that is no duration; its message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// Nothing was given.
    #[error("the duration is empty; write one such as 90s or 1h30m")]
    Empty,
    /// Far more text than a duration needs.
    #[error("a duration of {0} bytes is too long; write one such as 1h30m")]
    TooLong(usize),
    /// A sign in front.
    #[error("a duration has no sign; write it as 90s or 1h30m")]
    Signed,
    /// Something that is no digit where a number must begin.
    #[error("column {column}: expected a number; write a duration such as 90s or 1h30m")]
    NumberMissing {
        /// Counted in characters from 1.
        column: usize,
    },
    /// A decimal point.
    #[error("column {column}: fractions are not read; write the smaller unit, as in 1h30m or 500ms")]
    Fraction {
        /// Counted in characters from 1.
        column: usize,
    },
    /// A number with nothing behind it.
    #[error("{number} has no unit; write d, h, m, s or ms behind it")]
    UnitMissing {
        /// The number as written.
        number: String,
    },
    /// A unit that is none of ours.
    #[error("unknown unit {unit:?}; use d, h, m, s or ms")]
    UnknownUnit {
        /// The unit as written.
        unit: String,
    },
    /// A unit given twice or behind a smaller one.
    #[error("{unit:?} is out of order; write each unit once, from large to small, as in 1h30m")]
    OutOfOrder {
        /// The unit at fault.
        unit: &'static str,
    },
    /// A length of nothing.
    #[error("the duration is zero; write 1ms or more")]
    Zero,
    /// Above [`MAX_DURATION`].
    #[error("the duration is too large; the most is 36525d")]
    TooLarge,
}

/// Reads a positive duration: numbers with units, each unit at most once, from large to small.
///
/// ```
/// use jiff::SignedDuration;
/// use punctual_core::duration::parse_duration;
///
/// assert_eq!(parse_duration("1h30m"), Ok(SignedDuration::from_mins(90)));
/// assert_eq!(
///     parse_duration("1.5h").unwrap_err().to_string(),
///     "column 2: fractions are not read; write the smaller unit, as in 1h30m or 500ms"
/// );
/// ```
pub fn parse_duration(text: &str) -> Result<SignedDuration, DurationError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(DurationError::TooLong(text.len()));
    }
    let text = text.trim_ascii();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    if text.starts_with(['-', '+']) {
        return Err(DurationError::Signed);
    }
    let mut total_ms = 0_i64;
    let mut smaller_units = &UNITS[..];
    let mut rest = text;
    while !rest.is_empty() {
        let column = text[..text.len() - rest.len()].chars().count() + 1;
        let (number, behind) = take_while(rest, |c| c.is_ascii_digit());
        if number.is_empty() {
            return Err(DurationError::NumberMissing { column });
        }
        if behind.starts_with(['.', ',']) {
            return Err(DurationError::Fraction { column: column + number.len() });
        }
        let (unit, behind) = take_while(behind, char::is_alphabetic);
        let part_ms = part(number, unit, &mut smaller_units)?;
        total_ms = total_ms.checked_add(part_ms).ok_or(DurationError::TooLarge)?;
        rest = behind;
    }
    match SignedDuration::from_millis(total_ms) {
        SignedDuration::ZERO => Err(DurationError::Zero),
        long if long > MAX_DURATION => Err(DurationError::TooLarge),
        fine => Ok(fine),
    }
}

/// Milliseconds of one number and unit; what may still follow shrinks.
fn part(number: &str, unit: &str, smaller_units: &mut &[(&'static str, i64)]) -> Result<i64, DurationError> {
    if unit.is_empty() {
        return Err(DurationError::UnitMissing { number: number.chars().take(20).collect() });
    }
    let Some(&(known, unit_ms)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit { unit: unit.chars().take(20).collect() });
    };
    let Some(at) = smaller_units.iter().position(|(name, _)| *name == unit) else {
        return Err(DurationError::OutOfOrder { unit: known });
    };
    *smaller_units = &smaller_units[at + 1..];
    let number: i64 = number.parse().map_err(|_| DurationError::TooLarge)?;
    number.checked_mul(unit_ms).ok_or(DurationError::TooLarge)
}

fn take_while(text: &str, wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !wanted(c)).unwrap_or(text.len()))
}

/// Writes a duration so that [`parse_duration`] reads it back; parts of a millisecond are dropped.
///
/// ```
/// use jiff::SignedDuration;
/// use punctual_core::duration::format_duration;
///
/// assert_eq!(format_duration(SignedDuration::from_secs(90)), "1m30s");
/// assert_eq!(format_duration(SignedDuration::ZERO), "0s");
/// ```
pub fn format_duration(duration: SignedDuration) -> String {
    let mut rest_ms = duration.as_millis().unsigned_abs();
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::from(if duration.is_negative() { "-" } else { "" });
    for (unit, unit_ms) in UNITS {
        let unit_ms = u128::from(unit_ms.unsigned_abs());
        if rest_ms >= unit_ms {
            text.push_str(&(rest_ms / unit_ms).to_string());
            text.push_str(unit);
            rest_ms %= unit_ms;
        }
    }
    text
}

/// Refuses a duration that the text form could not carry: shorter than a millisecond, or longer than
/// [`MAX_DURATION`].
pub fn check(field: &str, duration: SignedDuration) -> Result<(), crate::invalid::Invalid> {
    if duration < SignedDuration::from_millis(1) || duration > MAX_DURATION {
        return Err(
            crate::invalid::Invalid::new(field, "is not between 1ms and 36525d").remedy("give a time such as 30s")
        );
    }
    Ok(())
}

/// Serde for a duration written as text, such as `90s`.
pub mod text {
    use super::{SignedDuration, format_duration, parse_duration};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    /// Writes the text.
    pub fn serialize<S: Serializer>(duration: &SignedDuration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*duration))
    }

    /// Reads the text.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SignedDuration, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

/// Serde for a duration that may be absent.
pub mod optional_text {
    use super::{SignedDuration, format_duration, parse_duration};
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the text, or null.
    pub fn serialize<S: Serializer>(duration: &Option<SignedDuration>, serializer: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => serializer.serialize_str(&format_duration(*duration)),
            None => serializer.serialize_none(),
        }
    }

    /// Reads the text, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SignedDuration>, D::Error> {
        let text = <Option<String>>::deserialize(deserializer)?;
        text.map(|text| parse_duration(&text).map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn d05_durations_are_numbers_with_units() {
        for (text, ms) in [
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("500ms", 500),
            ("2d3h4m5s6ms", 183_845_006),
            (" 007s ", 7_000),
        ] {
            assert_eq!(parse_duration(text), Ok(SignedDuration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn d05_what_is_no_duration_is_refused_with_the_remedy() {
        for (text, message) in [
            ("", "the duration is empty; write one such as 90s or 1h30m"),
            ("-5m", "a duration has no sign; write it as 90s or 1h30m"),
            ("90", "90 has no unit; write d, h, m, s or ms behind it"),
            ("5min", "unknown unit \"min\"; use d, h, m, s or ms"),
            ("5M", "unknown unit \"M\"; use d, h, m, s or ms"),
            ("30m1h", "\"h\" is out of order; write each unit once, from large to small, as in 1h30m"),
            ("1m1m", "\"m\" is out of order; write each unit once, from large to small, as in 1h30m"),
            ("1h 30m", "column 3: expected a number; write a duration such as 90s or 1h30m"),
            ("0s", "the duration is zero; write 1ms or more"),
            ("36526d", "the duration is too large; the most is 36525d"),
            ("99999999999999999999d", "the duration is too large; the most is 36525d"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err().to_string(), message, "{text}");
        }
        let long = "1".repeat(10_000_000);
        assert_eq!(parse_duration(&long), Err(DurationError::TooLong(10_000_000)));
    }

    proptest! {
        #[test]
        fn d05_durations_round_trip(ms in 1..=MAX_DURATION.as_millis()) {
            let duration = SignedDuration::from_millis(i64::try_from(ms).unwrap());
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }
    }
}
