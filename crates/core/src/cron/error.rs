//! Why a cron expression was refused: which field, where in the text, and what to write instead.

use std::fmt;

/// One of the fields of a cron expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// 0 to 59; only in expressions of six fields.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12, or `JAN` to `DEC`.
    Month,
    /// 0 to 7 (both ends are Sunday), or `SUN` to `SAT`.
    DayOfWeek,
}

impl Field {
    /// The name used in messages and in `punctual cron explain`.
    pub fn as_str(self) -> &'static str {
        match self {
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::DayOfMonth => "day-of-month",
            Field::Month => "month",
            Field::DayOfWeek => "day-of-week",
        }
    }

    /// Smallest value the field takes.
    pub fn min(self) -> u8 {
        u8::from(matches!(self, Field::DayOfMonth | Field::Month))
    }

    /// Largest value the field takes.
    pub fn max(self) -> u8 {
        match self {
            Field::Second | Field::Minute => 59,
            Field::Hour => 23,
            Field::DayOfMonth => 31,
            Field::Month => 12,
            Field::DayOfWeek => 7,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refused expression. Its text names the field, the column and the remedy.
///
/// ```
/// use punctual_core::cron::{Cron, Field};
///
/// let error = Cron::parse("0 25 * * *").unwrap_err();
/// assert_eq!(error.field(), Some(Field::Hour));
/// assert_eq!(error.column(), Some(3));
/// assert_eq!(
///     error.to_string(),
///     "hour field, column 3: 25 is out of range; use 0 to 23"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}; {}", self.place(), self.remedy())]
pub struct CronError {
    pub(super) field: Option<Field>,
    pub(super) column: Option<usize>,
    pub(super) problem: CronProblem,
}

impl CronError {
    /// The field at fault, when it is one field's.
    pub fn field(&self) -> Option<Field> {
        self.field
    }

    /// Where the fault begins: a character column of the expression, counted from 1.
    pub fn column(&self) -> Option<usize> {
        self.column
    }

    /// What is wrong, as a closed set.
    pub fn problem(&self) -> &CronProblem {
        &self.problem
    }

    fn place(&self) -> String {
        match (self.field, self.column) {
            (Some(field), Some(column)) => format!("{field} field, column {column}: "),
            (Some(field), None) => format!("{field} field: "),
            (None, Some(column)) => format!("column {column}: "),
            (None, None) => String::new(),
        }
    }

    /// What to write instead.
    pub fn remedy(&self) -> String {
        self.problem.remedy(self.field)
    }
}

/// What can be wrong with a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronProblem {
    /// Nothing but blanks.
    #[error("the expression is empty")]
    Empty,
    /// Longer than [`MAX_EXPRESSION_BYTES`](super::MAX_EXPRESSION_BYTES).
    #[error("the expression has {0} bytes")]
    TooLong(usize),
    /// Fewer than five or more than six fields.
    #[error("the expression has {0} field{s}", s = if *.0 == 1 { "" } else { "s" })]
    FieldCount(usize),
    /// `@reboot` is no time.
    #[error("@reboot is not a time")]
    Reboot,
    /// `@every` where only a calendar expression fits.
    #[error("@every is an interval, not a cron expression")]
    Every,
    /// An `@` word that means nothing here.
    #[error("unknown word {0:?}")]
    UnknownMacro(String),
    /// `H` or `~` without a seed to choose the value by.
    #[error("a spread field (H or ~) needs a seed")]
    SeedMissing,
    /// Two commas in a row, or one at an end.
    #[error("an item of the list is empty")]
    EmptyItem,
    /// A range without its second end.
    #[error("the range has no end")]
    RangeEndMissing,
    /// A range without its first end.
    #[error("the range has no start")]
    RangeStartMissing,
    /// A range whose end comes before its start.
    #[error("the range {0}-{1} runs backwards")]
    BackwardsRange(String, String),
    /// `/n` with nothing to step through.
    #[error("a step needs something to step through")]
    StepWithoutRange,
    /// `/` with nothing behind it.
    #[error("the step has no number")]
    StepMissing,
    /// `/0`.
    #[error("a step of 0 never advances")]
    ZeroStep,
    /// A number the field does not have.
    #[error("{0} is out of range")]
    OutOfRange(String),
    /// `MON` or `JAN` outside its own field.
    #[error("{0:?} is the name of a {1}")]
    NameInWrongField(String, &'static str),
    /// Letters that are no name.
    #[error("unknown name {0:?}")]
    UnknownName(String),
    /// `L`, `W` or `#` where it has no meaning.
    #[error("{0:?} has no meaning here")]
    MisplacedMark(char),
    /// `n#k` with k outside 1 to 5.
    #[error("a month has no weekday number {0}")]
    NoSuchOccurrence(String),
    /// A character that cannot stand here.
    #[error("unexpected {0:?}")]
    Unexpected(char),
    /// No year has a date that matches.
    #[error("no such date exists in any year")]
    ImpossibleDate,
}

impl CronProblem {
    fn remedy(&self, field: Option<Field>) -> String {
        match self {
            Self::Empty => "write five fields: minute hour day-of-month month day-of-week".into(),
            Self::TooLong(_) => {
                format!("at most {} are read", super::MAX_EXPRESSION_BYTES)
            }
            Self::FieldCount(7..) => "write five fields, or six with seconds first; there is no year field".into(),
            Self::FieldCount(_) => "write five fields (minute hour day-of-month month \
                 day-of-week), or six with seconds first"
                .into(),
            Self::Reboot => "a schedule has times only; start such work when the service \
                 starts"
                .into(),
            Self::Every => "give it where an interval is taken, as in @every 90s".into(),
            Self::UnknownMacro(_) => "use @yearly, @monthly, @weekly, @daily, @hourly or @every 90s".into(),
            Self::SeedMissing => "give a seed, such as the schedule's name, or write the \
                 value itself"
                .into(),
            Self::EmptyItem => "remove the extra comma".into(),
            Self::RangeEndMissing | Self::RangeStartMissing => "write both ends, as in 1-5".into(),
            Self::BackwardsRange(start, end) => backwards_remedy(field, start, end),
            Self::StepWithoutRange => "write */n for every nth value".into(),
            Self::StepMissing => "write a number behind the slash, as in */5".into(),
            Self::ZeroStep => "write a step of 1 or more".into(),
            Self::NoSuchOccurrence(_) => "use 1 to 5, as in 5#2 for the second Friday".into(),
            Self::NameInWrongField(_, kind) => format!(
                "{kind} names stand in the {kind_field} field",
                kind_field = if *kind == "month" { "month" } else { "day-of-week" }
            ),
            Self::UnknownName(_) => name_remedy(field),
            Self::MisplacedMark(mark) => mark_remedy(*mark).into(),
            Self::OutOfRange(_) | Self::Unexpected(_) => values_remedy(field),
            Self::ImpossibleDate => "choose a day that one of the months has".into(),
        }
    }
}

fn values_remedy(field: Option<Field>) -> String {
    match field {
        Some(Field::DayOfWeek) => "use 0 to 7 (0 and 7 are Sunday) or SUN to SAT".into(),
        Some(Field::Month) => "use 1 to 12 or JAN to DEC".into(),
        Some(field) => format!("use {} to {}", field.min(), field.max()),
        None => "use numbers, names and * , - /".into(),
    }
}

fn name_remedy(field: Option<Field>) -> String {
    match field {
        Some(Field::Month) => "months are JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".into(),
        Some(Field::DayOfWeek) => "days are SUN MON TUE WED THU FRI SAT".into(),
        other => values_remedy(other),
    }
}

fn mark_remedy(mark: char) -> &'static str {
    match mark {
        'L' => {
            "L is the last day in the day-of-month field, and 5L the last Friday in the \
             day-of-week field"
        }
        'W' => "15W is the weekday nearest the 15th and LW the last one, in the day-of-month field",
        _ => "5#2 is the second Friday, in the day-of-week field",
    }
}

// A range over the end of the cycle is two ranges; saying which two is the quickest help.
fn backwards_remedy(field: Option<Field>, start: &str, end: &str) -> String {
    let Some(field) = field else {
        return "write the smaller value first".into();
    };
    let (low, high) = match field {
        Field::DayOfWeek => ("SUN".to_owned(), "SAT".to_owned()),
        _ => (field.min().to_string(), field.max().to_string()),
    };
    let part = |a: &str, b: &str| {
        if a.eq_ignore_ascii_case(b) { a.to_owned() } else { format!("{a}-{b}") }
    };
    let (tail, head) = (part(start, &high), part(&low, end));
    format!("split it, as in {tail},{head}")
}
