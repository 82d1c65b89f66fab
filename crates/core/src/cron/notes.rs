//! What the author of a schedule should know before its first surprise: clock changes and oddities.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use super::clock::{Stretch, timestamp};
use super::{CronClock, DstGap, DstOverlap, Field, field_texts};

/// Times named one by one in a note; more are counted.
const NAMED_TIMES: usize = 3;

/// How the clock changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DstChange {
    /// Times are skipped.
    Gap,
    /// Times come twice.
    Overlap,
}

/// A change of clock that touches a schedule's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DstNote {
    /// The local date of the first time touched.
    pub date: Date,
    /// The instant of the change.
    pub changes_at: Timestamp,
    /// Whether times are skipped or repeated.
    pub change: DstChange,
    /// What happens then, in English.
    pub text: String,
}

/// The changes of clock after `from` and up to `until` that touch the schedule's times.
///
/// Jobs that run in every hour are left alone by any change and give no notes.
///
/// ```
/// use punctual_core::cron::{Cron, CronClock, Dst, dst_notes, zone};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = CronClock::new(Cron::parse("30 2 * * *")?, zone("Europe/Berlin")?, Dst::default());
/// let notes = dst_notes(&clock, "2027-01-01T00:00:00Z".parse()?, "2027-07-01T00:00:00Z".parse()?);
/// assert_eq!(notes[0].text, "02:30 does not exist on 2027-03-28; it fires once, at 03:00");
/// # Ok(())
/// # }
/// ```
pub fn dst_notes(clock: &CronClock, from: Timestamp, until: Timestamp) -> Vec<DstNote> {
    let mut notes = Vec::new();
    if !clock.cron().is_fixed_time() && clock.cron().calendar.time.hours == (1 << 24) - 1 {
        return notes;
    }
    let mut stretch = Stretch::at(clock.zone(), from.as_second());
    while let Some(next) = stretch.and_then(|stretch| stretch.next(clock.zone())) {
        let changes_at = timestamp(next.start);
        let Some(changes_at) = changes_at.filter(|change| *change <= until) else {
            break;
        };
        notes.extend(note(clock, &next, changes_at));
        stretch = Some(next);
    }
    notes
}

fn note(clock: &CronClock, stretch: &Stretch, changes_at: Timestamp) -> Option<DstNote> {
    let (old, new) = (stretch.start + stretch.before, stretch.start + stretch.offset);
    let touched = Touched::between(clock, old.min(new), old.max(new))?;
    let (change, text) = if old < new {
        (DstChange::Gap, gap_text(clock, &touched, wall_time(new)?))
    } else {
        (DstChange::Overlap, overlap_text(clock, &touched))
    };
    Some(DstNote { date: touched.date, changes_at, change, text })
}

/// The times of a schedule inside a gap or an overlap.
struct Touched {
    date: Date,
    names: Vec<String>,
    more: u64,
}

impl Touched {
    fn between(clock: &CronClock, start: i64, end: i64) -> Option<Touched> {
        let calendar = &clock.cron().calendar;
        let first = calendar.first_in(start, end)?;
        let date = wall_time(first)?.date();
        let walls = std::iter::successors(Some(first), |wall| calendar.first_in(wall + 1, end));
        let names: Vec<_> = walls.take(NAMED_TIMES).filter_map(wall_time).map(time_of_day).collect();
        let more = calendar.count_in(start, end) - names.len() as u64;
        Some(Touched { date, names, more })
    }

    fn is_one(&self) -> bool {
        self.names.len() == 1 && self.more == 0
    }

    /// "it" with the ending of its verb.
    fn verb(&self, one: &'static str, many: &'static str) -> &'static str {
        if self.is_one() { one } else { many }
    }
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.names.as_slice(), self.more) {
            ([one], 0) => f.write_str(one),
            ([first @ .., last], 0) => write!(f, "{} and {last}", first.join(", ")),
            (names, more) => write!(f, "{} and {more} more", names.join(", ")),
        }
    }
}

fn gap_text(clock: &CronClock, touched: &Touched, gap_end: DateTime) -> String {
    let does = touched.verb("does", "do");
    let what = match (clock.cron().is_fixed_time(), clock.dst().gap) {
        (true, DstGap::Next) => {
            let it = touched.verb("it fires", "they fire");
            let mut text = format!("{it} once, at {}", time_of_day(gap_end));
            if gap_end.date() != touched.date {
                text = format!("{text} on {}", gap_end.date());
            }
            text
        }
        (true, DstGap::Skip) => touched.verb("it is skipped", "they are skipped").to_owned(),
        (false, _) => {
            format!("{}, since a time field starts with *", touched.verb("it is skipped", "they are skipped"))
        }
    };
    format!("{touched} {does} not exist on {}; {what}", touched.date)
}

fn overlap_text(clock: &CronClock, touched: &Touched) -> String {
    let comes = touched.verb("comes", "come");
    let fires = touched.verb("it fires", "they fire");
    let what = match (clock.cron().is_fixed_time(), clock.dst().overlap) {
        (true, DstOverlap::First) => "once, the first time",
        (true, DstOverlap::Second) => "once, the second time",
        (true, DstOverlap::Both) => "both times",
        (false, _) => "both times, since a time field starts with *",
    };
    format!("{touched} {comes} twice on {}; {fires} {what}", touched.date)
}

fn wall_time(wall: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(timestamp(wall)?))
}

fn time_of_day(wall: DateTime) -> String {
    let time = wall.time();
    if time.second() == 0 { time.strftime("%H:%M").to_string() } else { time.strftime("%H:%M:%S").to_string() }
}

/// Something legal that may not be what was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CronWarning {
    /// No fire is to come within the horizon.
    NoFurtherFire,
    /// `*/7` minutes: the last step of each cycle is shorter.
    UnevenStep {
        /// The field with the step.
        field: Field,
        /// The step.
        step: u32,
    },
    /// A step larger than the field: one value is left.
    StepBeyondField {
        /// The field with the step.
        field: Field,
        /// The step.
        step: u32,
    },
    /// Both day fields are given, and either is enough.
    EitherDay,
    /// Both day fields are given, and both must match.
    BothDays,
    /// `* 8 * * *`: every minute of the hour, where one fire is usually meant.
    EveryMinuteOfSomeHours,
}

impl fmt::Display for CronWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFurtherFire => {
                write!(f, "no further fire within {} years", super::HORIZON_YEARS)
            }
            Self::UnevenStep { field: field @ Field::DayOfMonth, step } => {
                write!(f, "*/{step} in the {field} field starts again on the 1st of every month")
            }
            Self::UnevenStep { field, step } => {
                let size = cycle(*field);
                write!(
                    f,
                    "*/{step} in the {field} field is uneven: {step} does not divide {size}, \
                     so the last step is shorter"
                )
            }
            Self::StepBeyondField { field, step } => {
                write!(f, "*/{step} in the {field} field leaves its first value alone")
            }
            Self::EitherDay => f.write_str("day-of-month and day-of-week are both given: it fires when either matches"),
            Self::BothDays => f.write_str(
                "day-of-month and day-of-week are both given and one starts with *: it fires only \
                 when both match",
            ),
            Self::EveryMinuteOfSomeHours => f.write_str(
                "it fires every minute of the hours given; for once an hour give the minute, as \
                 in 0",
            ),
        }
    }
}

/// What is legal but odd about a schedule, seen from `after`.
///
/// ```
/// use punctual_core::cron::{Cron, CronClock, CronWarning, Dst, lint, zone};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = CronClock::new(Cron::parse("0 0 13 * 5")?, zone("UTC")?, Dst::default());
/// assert_eq!(lint(&clock, "2026-01-01T00:00:00Z".parse()?), [CronWarning::EitherDay]);
/// # Ok(())
/// # }
/// ```
pub fn lint(clock: &CronClock, after: Timestamp) -> Vec<CronWarning> {
    let calendar = &clock.cron().calendar;
    let texts = field_texts(clock.cron().expression());
    let mut warnings = Vec::new();
    if clock.next_after(after).is_none() {
        warnings.push(CronWarning::NoFurtherFire);
    }
    for (field, text) in &texts {
        warnings.extend(text.split(',').filter_map(|item| step_warning(*field, item)));
    }
    let whole = |text: &str| matches!(text, "*" | "?");
    let given = |wanted| texts.iter().any(|(field, text)| *field == wanted && !whole(text));
    if given(Field::DayOfMonth) && given(Field::DayOfWeek) {
        let either = calendar.days.either;
        warnings.push(if either { CronWarning::EitherDay } else { CronWarning::BothDays });
    }
    if !given(Field::Minute) && calendar.time.hours.count_ones() < 24 {
        warnings.push(CronWarning::EveryMinuteOfSomeHours);
    }
    warnings
}

fn step_warning(field: Field, item: &str) -> Option<CronWarning> {
    let step = item.strip_prefix("*/").or_else(|| item.strip_prefix("?/"))?.parse::<u32>().ok()?;
    if step > u32::from(field.max()) {
        return Some(CronWarning::StepBeyondField { field, step });
    }
    // Months differ in length, so a step over days is never even.
    let even = cycle(field).is_multiple_of(step.max(1)) && field != Field::DayOfMonth;
    (step > 1 && !even).then_some(CronWarning::UnevenStep { field, step })
}

fn cycle(field: Field) -> u32 {
    match field {
        Field::Second | Field::Minute => 60,
        Field::Hour => 24,
        Field::DayOfMonth => 31,
        Field::Month => 12,
        Field::DayOfWeek => 7,
    }
}
