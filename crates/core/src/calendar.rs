//! Calendars: named sets of days and times at which nothing may run.

use crate::cron;
use crate::invalid::Invalid;
use crate::name::{self, Name};
use crate::words::words;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The most days, and the most windows, that one calendar holds.
pub const ENTRIES_MAX: usize = 1000;

words! {
    /// A day of the week on which nothing may run.
    pub enum ClosedWeekday as "day of the week" {
        /// Monday.
        Monday = "monday",
        /// Tuesday.
        Tuesday = "tuesday",
        /// Wednesday.
        Wednesday = "wednesday",
        /// Thursday.
        Thursday = "thursday",
        /// Friday.
        Friday = "friday",
        /// Saturday.
        Saturday = "saturday",
        /// Sunday.
        Sunday = "sunday",
    }
}

impl ClosedWeekday {
    pub(crate) fn of(weekday: Weekday) -> Self {
        match weekday {
            Weekday::Monday => Self::Monday,
            Weekday::Tuesday => Self::Tuesday,
            Weekday::Wednesday => Self::Wednesday,
            Weekday::Thursday => Self::Thursday,
            Weekday::Friday => Self::Friday,
            Weekday::Saturday => Self::Saturday,
            Weekday::Sunday => Self::Sunday,
        }
    }
}

/// A date, or the same day of every year: `2026-12-25` or `12-25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DayRule {
    /// One day.
    Once(Date),
    /// This month and day, every year.
    Yearly {
        /// 1 to 12.
        month: i8,
        /// 1 to 31.
        day: i8,
    },
}

impl DayRule {
    fn holds(self, date: Date) -> bool {
        match self {
            Self::Once(on) => on == date,
            Self::Yearly { month, day } => (date.month(), date.day()) == (month, day),
        }
    }
}

impl std::str::FromStr for DayRule {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refused = || {
            let shown: String = text.chars().take(20).collect();
            Invalid::new("days", format!("`{shown}` is no day"))
                .remedy("write 2026-12-25, or 12-25 for the same day of every year")
        };
        if let Ok(date) = text.parse::<Date>() {
            return Ok(Self::Once(date));
        }
        let (month, day) = text.split_once('-').ok_or_else(refused)?;
        let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        if !two_digits(month) || !two_digits(day) {
            return Err(refused());
        }
        // A leap year, so that 29 February is a day.
        let date = format!("2024-{month}-{day}").parse::<Date>().map_err(|_| refused())?;
        Ok(Self::Yearly { month: date.month(), day: date.day() })
    }
}

impl TryFrom<String> for DayRule {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<DayRule> for String {
    fn from(rule: DayRule) -> Self {
        rule.to_string()
    }
}

impl std::fmt::Display for DayRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Once(date) => date.fmt(f),
            Self::Yearly { month, day } => write!(f, "{month:02}-{day:02}"),
        }
    }
}

/// A whole day, such as a holiday.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedDay {
    /// Which.
    pub on: DayRule,
    /// What it is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A stretch of time, such as a maintenance window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// From this instant on.
    pub from: Timestamp,
    /// Up to this instant, which is not one of them.
    pub until: Timestamp,
    /// What it is, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a user says about a calendar: when nothing may run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarRules {
    /// The zone in which its days begin and end; an IANA name.
    #[serde(default = "utc")]
    pub timezone: String,
    /// Whole days.
    #[serde(default)]
    pub days: Vec<ClosedDay>,
    /// The same days of every week.
    #[serde(default)]
    pub weekdays: Vec<ClosedWeekday>,
    /// Stretches of time.
    #[serde(default)]
    pub windows: Vec<Window>,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl Default for CalendarRules {
    fn default() -> Self {
        Self { timezone: utc(), days: Vec::new(), weekdays: Vec::new(), windows: Vec::new() }
    }
}

impl CalendarRules {
    /// Refuses what could not have been meant.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.zone()?;
        for (field, entries) in [("days", self.days.len()), ("windows", self.windows.len())] {
            if entries > ENTRIES_MAX {
                let told = format!("are {entries}, and {ENTRIES_MAX} are the most");
                return Err(Invalid::new(field, told).remedy("leave out what has passed, or use two calendars"));
            }
        }
        if ClosedWeekday::ALL.iter().all(|day| self.weekdays.contains(day)) {
            return Err(Invalid::new("weekdays", "are all seven, so that nothing would ever run")
                .remedy("leave one out, or pause the schedules instead"));
        }
        for day in &self.days {
            name::check_text("days.note", day.note.as_deref().unwrap_or_default())?;
        }
        for window in &self.windows {
            name::check_text("windows.note", window.note.as_deref().unwrap_or_default())?;
            if window.until <= window.from {
                let told = format!("has one that ends at {} and begins at {}", window.until, window.from);
                return Err(Invalid::new("windows", told).remedy("end it after it begins"));
            }
        }
        Ok(())
    }

    fn zone(&self) -> Result<TimeZone, Invalid> {
        cron::zone(&self.timezone).map_err(|e| Invalid::new("timezone", e.to_string()))
    }

    /// The rules with times as both stores keep them: whole microseconds.
    #[must_use]
    pub fn storable(mut self) -> Self {
        let whole = |at: Timestamp| Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at);
        for window in &mut self.windows {
            (window.from, window.until) = (whole(window.from), whole(window.until));
        }
        self
    }
}

/// A calendar as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCalendar {
    /// What schedules call it.
    pub name: Name,
    /// For people.
    pub description: String,
    /// When nothing may run.
    pub rules: CalendarRules,
    /// Rises with every edit.
    pub version: i64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last edited.
    pub updated_at: Timestamp,
}

/// A calendar that is understood.
#[derive(Debug, Clone)]
pub struct Calendar {
    name: String,
    zone: TimeZone,
    rules: CalendarRules,
}

impl Calendar {
    /// Understands a calendar; one that reached the table by hand may be wrong.
    pub fn new(name: impl Into<String>, rules: CalendarRules) -> Result<Self, Invalid> {
        Ok(Self { name: name.into(), zone: rules.zone()?, rules })
    }

    /// What schedules call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether nothing may run at this instant.
    pub fn excludes(&self, at: Timestamp) -> bool {
        self.excluded_since(at).is_some()
    }

    /// Since when nothing may run, if nothing may run at this instant: the beginning of the earliest entry that holds
    /// it, so that many slots in one entry can be passed over in one step.
    pub fn excluded_since(&self, at: Timestamp) -> Option<Timestamp> {
        let day = self.closed_day(at).map(|_| {
            let start = at.to_zoned(self.zone.clone()).start_of_day();
            start.map_or(at, |start| start.timestamp())
        });
        self.closed_windows(at).map(|window| window.from).chain(day).min()
    }

    /// Why nothing may run at this instant, in words.
    pub fn why_excluded(&self, at: Timestamp) -> Option<String> {
        let window = self.closed_windows(at).next().map(|window| {
            noted(format!("it is closed from {} until {}", window.from, window.until), window.note.as_deref())
        });
        let why = self.closed_day(at).or(window)?;
        Some(format!("calendar {}: {why}", self.name))
    }

    fn closed_windows(&self, at: Timestamp) -> impl Iterator<Item = &Window> {
        self.rules.windows.iter().filter(move |window| window.from <= at && at < window.until)
    }

    /// What is said of the local day of an instant, if it is closed.
    fn closed_day(&self, at: Timestamp) -> Option<String> {
        let date = at.to_zoned(self.zone.clone()).date();
        let day = self.rules.days.iter().find(|day| day.on.holds(date));
        let weekday = ClosedWeekday::of(date.weekday());
        let closed = self.rules.weekdays.contains(&weekday);
        match day {
            Some(day) => Some(noted(format!("{date} is closed"), day.note.as_deref())),
            None => closed.then(|| format!("{date} is a {weekday}, which is closed")),
        }
    }

    /// The first instant at or after another at which something may run, looked for over so many days.
    pub fn open_from(&self, at: Timestamp, days: usize) -> Option<Timestamp> {
        let mut open = at;
        for _ in 0..days {
            let window = self.closed_windows(open).map(|window| window.until).max();
            let day = self.closed_day(open).and_then(|_| {
                let start = open.to_zoned(self.zone.clone()).start_of_day().ok()?;
                Some(start.tomorrow().ok()?.start_of_day().ok()?.timestamp())
            });
            match window.max(day) {
                // A day of which the clock shows nothing has no end of its own.
                Some(end) => open = end.max(open.saturating_add(SignedDuration::from_micros(1)).ok()?),
                None => return Some(open),
            }
        }
        None
    }
}

fn noted(what: String, note: Option<&str>) -> String {
    match note {
        Some(note) if !note.is_empty() => format!("{what} ({note})"),
        _ => what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(on: &str, note: Option<&str>) -> ClosedDay {
        ClosedDay { on: on.parse().unwrap(), note: note.map(str::to_owned) }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn berlin() -> Calendar {
        let rules = CalendarRules {
            timezone: "Europe/Berlin".into(),
            days: vec![day("2026-12-25", Some("Christmas")), day("05-01", None)],
            weekdays: vec![ClosedWeekday::Sunday],
            windows: vec![Window {
                from: at("2026-12-31T10:00:00Z"),
                until: at("2026-12-31T11:00:00Z"),
                note: Some("move".into()),
            }],
        };
        rules.validate().unwrap();
        Calendar::new("de", rules).unwrap()
    }

    #[test]
    fn d11_a_holiday_is_a_day_of_its_own_zone() {
        let table = [
            ("2026-12-24T22:59:59Z", None),
            ("2026-12-24T23:00:00Z", Some("calendar de: 2026-12-25 is closed (Christmas)")),
            ("2026-12-25T22:59:59Z", Some("calendar de: 2026-12-25 is closed (Christmas)")),
            ("2026-12-25T23:00:00Z", None),
            ("2027-12-25T12:00:00Z", None),
            ("2026-05-01T12:00:00Z", Some("calendar de: 2026-05-01 is closed")),
            ("2031-05-01T12:00:00Z", Some("calendar de: 2031-05-01 is closed")),
            ("2026-12-26T23:00:00Z", Some("calendar de: 2026-12-27 is a sunday, which is closed")),
            ("2026-12-27T23:00:00Z", None),
            ("2026-12-31T09:59:59Z", None),
            (
                "2026-12-31T10:00:00Z",
                Some("calendar de: it is closed from 2026-12-31T10:00:00Z until 2026-12-31T11:00:00Z (move)"),
            ),
            ("2026-12-31T11:00:00Z", None),
        ];
        for (instant, expected) in table {
            assert_eq!(berlin().why_excluded(at(instant)).as_deref(), expected, "{instant}");
            assert_eq!(berlin().excludes(at(instant)), expected.is_some(), "{instant}");
        }
    }

    #[test]
    fn d11_what_is_closed_is_passed_over_in_one_step() {
        let calendar = berlin();
        assert_eq!(calendar.excluded_since(at("2026-12-25T20:00:00Z")), Some(at("2026-12-24T23:00:00Z")));
        assert_eq!(calendar.excluded_since(at("2026-12-31T10:59:00Z")), Some(at("2026-12-31T10:00:00Z")));
        // Sunday 3 May ends on Monday; Friday 1 May ends on Saturday.
        assert_eq!(calendar.open_from(at("2026-05-01T12:00:00Z"), 10), Some(at("2026-05-01T22:00:00Z")));
        assert_eq!(calendar.open_from(at("2026-05-03T12:00:00Z"), 10), Some(at("2026-05-03T22:00:00Z")));
        assert_eq!(calendar.open_from(at("2026-05-04T12:00:00Z"), 10), Some(at("2026-05-04T12:00:00Z")));
    }

    #[test]
    fn d11_a_day_that_the_date_line_left_out_closes_nothing() {
        let rules = CalendarRules {
            timezone: "Pacific/Apia".into(),
            days: vec![day("2011-12-30", None)],
            ..CalendarRules::default()
        };
        let apia = Calendar::new("ws", rules).unwrap();
        // 29 December ends where 31 December begins.
        assert!(!apia.excludes(at("2011-12-30T09:59:59Z")) && !apia.excludes(at("2011-12-30T10:00:00Z")));
    }

    #[test]
    fn d11_a_calendar_that_could_not_have_been_meant_is_refused_by_its_field() {
        let refused = |rules: CalendarRules| rules.validate().unwrap_err().field;
        let usual = CalendarRules::default;
        assert_eq!(refused(CalendarRules { timezone: "Mars/Olympus".into(), ..usual() }), "timezone");
        assert_eq!(refused(CalendarRules { weekdays: ClosedWeekday::ALL.to_vec(), ..usual() }), "weekdays");
        assert_eq!(refused(CalendarRules { days: vec![day("05-01", None); ENTRIES_MAX + 1], ..usual() }), "days");
        let now = at("2026-01-01T00:00:00Z");
        let empty = Window { from: now, until: now, note: None };
        assert_eq!(refused(CalendarRules { windows: vec![empty], ..usual() }), "windows");
        for text in ["", "tomorrow", "13-01", "02-30", "1-1", "2026-02-29", "+1-01"] {
            assert_eq!(text.parse::<DayRule>().unwrap_err().field, "days", "{text}");
        }
        assert_eq!("02-29".parse::<DayRule>().unwrap().to_string(), "02-29");
    }

    #[test]
    fn d11_rules_are_written_as_they_are_read() {
        let rules = berlin().rules;
        let text = serde_json::to_string(&rules).unwrap();
        assert!(text.contains(r#""days":[{"on":"2026-12-25","note":"Christmas"},{"on":"05-01"}]"#), "{text}");
        assert_eq!(serde_json::from_str::<CalendarRules>(&text).unwrap(), rules);
        assert!(serde_json::from_str::<CalendarRules>(r#"{"holidays":[]}"#).is_err(), "an unknown field is told");
    }
}
