//! Expressions in English, from the parsed form.

use super::calendar::{Calendar, DayRule};
use super::{Cron, Field, field_texts};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const NTH: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

const ALL_SIXTY: u64 = (1 << 60) - 1;
const ALL_HOURS: u64 = (1 << 24) - 1;
const ALL_MONTHS: u16 = 0x1ffe;
const ALL_DAYS: u32 = 0xffff_fffe;
const ALL_WEEKDAYS: u8 = 0x7f;

/// More times of day than this are described by their pattern instead of one by one.
const MOST_TIMES: u64 = 4;

/// The expression in English. The fires are the truth: show some beside it.
///
/// ```
/// use punctual_core::cron::{Cron, describe};
///
/// let cron = Cron::parse("0 8 * * 1-5")?;
/// assert_eq!(describe(&cron, "Europe/Berlin"), "At 08:00, Monday to Friday, Europe/Berlin");
/// let cron = Cron::parse("0 0 13 * 5")?;
/// assert_eq!(describe(&cron, "UTC"), "At 00:00, on the 13th of the month or on Friday, UTC");
/// # Ok::<(), punctual_core::cron::CronError>(())
/// ```
pub fn describe(cron: &Cron, zone_name: &str) -> String {
    let calendar = &cron.calendar;
    let mut parts = vec![times(calendar), days(&calendar.days)];
    if calendar.months != ALL_MONTHS {
        parts.push(months(calendar.months));
    }
    parts.push(zone_name.to_owned());
    parts.join(", ")
}

/// What one field means on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMeaning {
    /// Which field.
    pub field: Field,
    /// Its text; for a word such as `@daily`, that of the expression it stands for.
    pub text: String,
    /// In English.
    pub meaning: String,
}

/// The expression field by field.
///
/// ```
/// use punctual_core::cron::{Cron, field_meanings};
///
/// let meanings = field_meanings(&Cron::parse("*/15 9-17 * * *")?);
/// assert_eq!(meanings[1].meaning, "9 to 17");
/// # Ok::<(), punctual_core::cron::CronError>(())
/// ```
pub fn field_meanings(cron: &Cron) -> Vec<FieldMeaning> {
    let calendar = &cron.calendar;
    let rule = &calendar.days;
    let texts = field_texts(cron.expression());
    texts
        .into_iter()
        .map(|(field, text)| {
            let meaning = match field {
                Field::Second => values(calendar.time.seconds, ALL_SIXTY, "second"),
                Field::Minute => values(calendar.time.minutes, ALL_SIXTY, "minute"),
                Field::Hour => values(calendar.time.hours, ALL_HOURS, "hour"),
                Field::DayOfMonth if plain_days(rule) => "every day of the month".to_owned(),
                Field::DayOfMonth => of_month(rule),
                Field::Month if calendar.months == ALL_MONTHS => "every month".to_owned(),
                Field::Month => names(calendar.months.into(), 1, &MONTHS),
                Field::DayOfWeek if plain_weekdays(rule) => "every day of the week".to_owned(),
                Field::DayOfWeek => of_week(rule),
            };
            FieldMeaning { field, text: text.to_owned(), meaning }
        })
        .collect()
}

fn values(bits: u64, all: u64, unit: &str) -> String {
    if bits == all {
        return format!("every {unit}");
    }
    match even_step(bits, all) {
        Some(step) => format!("every {step} {unit}s, from 0"),
        None => numbers(bits),
    }
}

fn times(calendar: &Calendar) -> String {
    let time = &calendar.time;
    let of_day = u64::from(time.hours.count_ones() * time.minutes.count_ones() * time.seconds.count_ones());
    if of_day <= MOST_TIMES {
        return format!("At {}", clock_times(calendar));
    }
    let minutes = pattern(time.minutes, "minute");
    let text = match (time.minutes, time.seconds) {
        (_, 1) => minutes,
        (ALL_SIXTY, seconds) if !listed(seconds) => pattern(seconds, "second"),
        (_, seconds) => {
            let minutes = minutes.trim_start_matches("at ");
            format!("{} of {minutes}", pattern(seconds, "second"))
        }
    };
    capitalised(&format!("{text}{}", hours(time.hours, listed(time.minutes))))
}

/// Whether a field of sixty can only be told by listing its values.
fn listed(bits: u64) -> bool {
    bits != ALL_SIXTY && even_step(bits, ALL_SIXTY).is_none()
}

fn pattern(bits: u64, unit: &str) -> String {
    match even_step(bits, ALL_SIXTY) {
        _ if bits == ALL_SIXTY => format!("every {unit}"),
        Some(step) => format!("every {step} {unit}s"),
        None if bits.is_power_of_two() => format!("at {unit} {}", numbers(bits)),
        None => format!("at {unit}s {}", numbers(bits)),
    }
}

fn hours(bits: u64, minutes_listed: bool) -> String {
    if bits == ALL_HOURS {
        return if minutes_listed { " of every hour".to_owned() } else { String::new() };
    }
    let (low, high) = (bits.trailing_zeros(), bits.ilog2());
    match even_step(bits, ALL_HOURS) {
        Some(step) => format!(", in every {} hour from 0", ordinal(step)),
        None if high - low + 1 == bits.count_ones() => {
            format!(", from {low:02}:00 to {high:02}:59")
        }
        None => format!(", in hours {}", numbers(bits)),
    }
}

/// Each time of day; only asked for a few.
fn clock_times(calendar: &Calendar) -> String {
    let time = &calendar.time;
    let with_seconds = time.seconds != 1;
    let mut all = Vec::new();
    for hour in members(time.hours) {
        for minute in members(time.minutes) {
            for second in members(time.seconds) {
                let seconds = if with_seconds { format!(":{second:02}") } else { String::new() };
                all.push(format!("{hour:02}:{minute:02}{seconds}"));
            }
        }
    }
    joined(&all, "and")
}

fn days(rule: &DayRule) -> String {
    let (any_day, any_weekday) = (plain_days(rule), plain_weekdays(rule));
    match (rule.either, any_day, any_weekday) {
        (true, true, _) | (_, true, true) | (true, _, true) => "every day".to_owned(),
        (false, true, false) => of_week(rule),
        (false, false, true) => format!("on {}", of_month(rule)),
        (true, false, false) => format!("on {} or on {}", of_month(rule), of_week(rule)),
        (false, false, false) => {
            format!("on {} and only if it is {}", of_month(rule), of_week_choice(rule))
        }
    }
}

fn plain_days(rule: &DayRule) -> bool {
    rule.of_month == ALL_DAYS
}

fn plain_weekdays(rule: &DayRule) -> bool {
    rule.of_week == ALL_WEEKDAYS
}

fn of_month(rule: &DayRule) -> String {
    let mut parts = Vec::new();
    if rule.of_month != 0 {
        parts.push(format!("the {} of the month", runs(rule.of_month.into(), ordinal)));
    }
    for day in members(rule.nearest.into()) {
        parts.push(format!("the weekday nearest the {}", ordinal(day)));
    }
    if rule.last_weekday {
        parts.push("the last weekday of the month".to_owned());
    }
    if rule.last {
        parts.push("the last day of the month".to_owned());
    }
    joined(&parts, "and")
}

fn of_week(rule: &DayRule) -> String {
    joined(&of_week_parts(rule), "and")
}

fn of_week_choice(rule: &DayRule) -> String {
    joined(&of_week_parts(rule), "or")
}

fn of_week_parts(rule: &DayRule) -> Vec<String> {
    let mut parts = Vec::new();
    if rule.of_week != 0 {
        // A week that is read from Monday on keeps a weekend together.
        let monday_first = u64::from(rule.of_week >> 1 | (rule.of_week & 1) << 6);
        let name = |day: u32| WEEKDAYS[(day as usize + 1) % 7].to_owned();
        parts.extend(run_list(monday_first, name));
    }
    for (nth, weekdays) in NTH.iter().zip(rule.nth_of_week) {
        for day in members(weekdays.into()) {
            parts.push(format!("the {nth} {} of the month", WEEKDAYS[day as usize]));
        }
    }
    for day in members(rule.last_of_week.into()) {
        parts.push(format!("the last {} of the month", WEEKDAYS[day as usize]));
    }
    parts
}

fn months(bits: u16) -> String {
    format!("in {}", names(bits.into(), 1, &MONTHS))
}

fn names(bits: u64, first: u32, names: &[&str]) -> String {
    runs(bits, |value| names[(value - first) as usize].to_owned())
}

fn numbers(bits: u64) -> String {
    runs(bits, |value| value.to_string())
}

fn runs(bits: u64, show: impl Fn(u32) -> String) -> String {
    joined(&run_list(bits, show), "and")
}

/// Members in order, three or more in a row as "a to b".
fn run_list(bits: u64, show: impl Fn(u32) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest: Vec<u32> = members(bits).collect();
    while let Some(&start) = rest.first() {
        let length = rest.iter().zip(start..).take_while(|(value, wanted)| **value == *wanted).count();
        let taken: Vec<u32> = rest.drain(..length).collect();
        match taken.as_slice() {
            [first, _, .., last] if length > 2 => {
                parts.push(format!("{} to {}", show(*first), show(*last)));
            }
            few => parts.extend(few.iter().map(|value| show(*value))),
        }
    }
    parts
}

fn members(bits: u64) -> impl Iterator<Item = u32> {
    (0..64).filter(move |bit| bits >> bit & 1 == 1)
}

/// The n of `*/n`, when the steps stay even from one cycle to the next.
fn even_step(bits: u64, all: u64) -> Option<u32> {
    let size = all.count_ones();
    (2..=size / 2).find(|step| {
        size.is_multiple_of(*step) && (0..size).step_by(*step as usize).fold(0, |set, bit| set | 1 << bit) == bits
    })
}

fn joined(parts: &[String], word: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} {word} {last}", first.join(", ")),
    }
}

fn ordinal(number: u32) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}
