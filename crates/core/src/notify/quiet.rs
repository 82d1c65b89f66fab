//! Quiet hours: when nobody is told, and when it is made up for.

use crate::calendar::ClosedWeekday;
use crate::cron;
use crate::invalid::Invalid;
use jiff::Timestamp;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Hours of the day at which nobody is told; what falls into them is told when they are over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    /// From this time of the day on, such as 22:00.
    #[serde(with = "clock_text")]
    pub from: Time,
    /// Up to this one, which may lie on the next day. The same as `from` is the whole day.
    #[serde(with = "clock_text")]
    pub until: Time,
    /// An IANA name.
    #[serde(default = "utc")]
    pub timezone: String,
    /// The days on which they begin; every day when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<ClosedWeekday>,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// Serde for a time of the day as people write it.
mod clock_text {
    use jiff::civil::Time;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
    pub(super) fn serialize<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::written(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = <Cow<'de, str>>::deserialize(deserializer)?;
        super::parse_clock(&text).map_err(serde::de::Error::custom)
    }
}

/// Reads a time of the day: `22:00`.
pub fn parse_clock(text: &str) -> Result<Time, Invalid> {
    let refused = || Invalid::new("quiet", "has a time that is none").remedy("write it as 22:00");
    let (hour, minute) = text.split_once(':').ok_or_else(refused)?;
    let two = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !two(hour) || !two(minute) {
        return Err(refused());
    }
    let number = |part: &str| part.parse::<i8>().map_err(|_| refused());
    Time::new(number(hour)?, number(minute)?, 0, 0).map_err(|_| refused())
}

/// Writes it so that [`parse_clock`] reads it back.
pub fn written(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

impl QuietHours {
    /// Refuses zones that are unknown, and quiet that never ends.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.zone()?;
        let all_days = self.days.is_empty() || ClosedWeekday::ALL.iter().all(|day| self.days.contains(day));
        if self.from == self.until && all_days {
            return Err(Invalid::new("quiet", "never ends").remedy("end it at another time, or turn the rule off"));
        }
        Ok(())
    }

    fn zone(&self) -> Result<TimeZone, Invalid> {
        cron::zone(&self.timezone).map_err(|error| Invalid::new("quiet.timezone", error.to_string()))
    }

    /// The earliest instant from this one on that is not quiet. A zone that is not known any more keeps nobody quiet.
    pub fn over_at(&self, at: Timestamp) -> Timestamp {
        let Ok(zone) = self.zone() else { return at };
        let mut at = at;
        // Quiet hours of one day may reach into those of the next; a week of them is the most there is.
        for _ in 0..8 {
            match self.end_of_quiet(at, &zone) {
                Some(end) if end > at => at = end,
                _ => return at,
            }
        }
        at
    }

    /// When the quiet hours are over in which an instant lies.
    fn end_of_quiet(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let today = at.to_zoned(zone.clone()).date();
        let yesterday = today.yesterday().unwrap_or(today);
        [yesterday, today].into_iter().find_map(|day| {
            let begins = self.days.is_empty() || self.days.contains(&ClosedWeekday::of(day.weekday()));
            let last = if self.until > self.from { day } else { day.tomorrow().unwrap_or(day) };
            // A time that the clocks leap over is the instant at which they leap; one that comes twice is the first.
            let instant = |date: jiff::civil::Date, time| {
                date.to_datetime(time).to_zoned(zone.clone()).ok().map(|zoned| zoned.timestamp())
            };
            let (from, until) = (instant(day, self.from)?, instant(last, self.until)?);
            (begins && from <= at && at < until).then_some(until)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use proptest::prelude::*;

    /// A length of time that no quiet is longer than.
    const LONGEST_QUIET: SignedDuration = SignedDuration::from_hours(8 * 24);

    fn quiet(text: &str) -> QuietHours {
        let quiet: QuietHours = serde_json::from_str(text).expect("they can be read");
        quiet.validate().expect("they make sense");
        quiet
    }

    fn over(quiet: &QuietHours, at: &str) -> String {
        quiet.over_at(at.parse().expect("a time")).to_string()
    }

    #[test]
    fn n02_what_falls_into_quiet_hours_is_told_when_they_are_over() {
        let nights = quiet(r#"{"from":"22:00","until":"07:00","timezone":"Europe/Berlin"}"#);
        assert_eq!(over(&nights, "2026-01-10T20:59:59Z"), "2026-01-10T20:59:59Z");
        assert_eq!(over(&nights, "2026-01-10T21:00:00Z"), "2026-01-11T06:00:00Z");
        assert_eq!(over(&nights, "2026-01-11T03:00:00Z"), "2026-01-11T06:00:00Z");
        assert_eq!(over(&nights, "2026-01-11T06:00:00Z"), "2026-01-11T06:00:00Z");
        // The night in which the clocks go forward is an hour shorter.
        assert_eq!(over(&nights, "2026-03-28T23:00:00Z"), "2026-03-29T05:00:00Z");
        let weekend = quiet(r#"{"from":"00:00","until":"00:00","days":["saturday","sunday"]}"#);
        assert_eq!(over(&weekend, "2026-01-10T12:00:00Z"), "2026-01-12T00:00:00Z");
        assert_eq!(over(&weekend, "2026-01-09T23:59:59Z"), "2026-01-09T23:59:59Z");
    }

    #[test]
    fn n02_quiet_that_never_ends_or_is_nowhere_is_refused() {
        for text in
            [r#"{"from":"00:00","until":"00:00"}"#, r#"{"from":"22:00","until":"07:00","timezone":"Europe/Nowhere"}"#]
        {
            let quiet: QuietHours = serde_json::from_str(text).expect("they can be read");
            assert!(quiet.validate().is_err(), "{text}");
        }
        for text in [r#"{"from":"24:00","until":"07:00"}"#, r#"{"from":"7","until":"08:00"}"#] {
            assert!(serde_json::from_str::<QuietHours>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn n02_quiet_is_over_soon_and_stays_over(
            from in 0_i8..24, until in 0_i8..24, days in proptest::sample::subsequence(ClosedWeekday::ALL.to_vec(), 0..6),
            second in 1_700_000_000_i64..1_900_000_000,
        ) {
            let clock = |hour| Time::constant(hour, 0, 0, 0);
            let timezone = "America/New_York".to_owned();
            let quiet = QuietHours { from: clock(from), until: clock(until), timezone, days };
            prop_assume!(quiet.validate().is_ok());
            let at = Timestamp::from_second(second).expect("a time");
            let over = quiet.over_at(at);
            prop_assert!(over >= at && over.duration_since(at) <= LONGEST_QUIET);
            prop_assert_eq!(quiet.over_at(over), over);
        }
    }
}
