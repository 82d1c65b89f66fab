//! `OnCalendar=` as cron expressions: every form of `systemd.time`, and what of it cron cannot say.

use jiff::Timestamp;
use jiff::civil::date;
use punctual_core::cron::zone;

use super::super::reading::quoted;

/// The days of months by their length, February as it mostly is.
const LENGTHS: [(u32, u64); 3] = [(31, 0b1_0101_1010_1010), (30, 0b1010_0101_0000), (28, 0b100)];

/// More stretches of years than this are nobody's calendar.
const STRETCHES_MAX: usize = 12;

/// One schedule's part of a calendar expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) when: When,
    pub(super) timezone: Option<String>,
    pub(super) starts_at: Option<Timestamp>,
    pub(super) ends_at: Option<Timestamp>,
    /// Days of the week on which it must not run although the expression names them.
    pub(super) closed_weekdays: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum When {
    Cron(String),
    At(Timestamp),
}

/// What a calendar expression becomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) schedules: Vec<Part>,
    /// What is not quite the same.
    pub(super) differs: Vec<String>,
    /// What cannot be said at all.
    pub(super) left_out: Vec<String>,
}

/// Reads an expression; `machine_zone` is the zone of those that name none. What systemd refuses is refused.
pub(super) fn read(text: &str, machine_zone: &str) -> Result<Parts, String> {
    let text = text.trim();
    if text.len() > 4096 {
        return Err(format!("{} is far too long for a calendar expression", quoted(text)));
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let at = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let at = at.ok_or_else(|| format!("{} is no time: digits go behind @", quoted(text)))?;
        let part =
            Part { when: When::At(at), timezone: None, starts_at: None, ends_at: None, closed_weekdays: Vec::new() };
        return Ok(Parts { schedules: vec![part], ..Parts::default() });
    }
    let spec = Spec::parse(text).map_err(|problem| format!("{}: {problem}", quoted(text)))?;
    Ok(spec.parts(machine_zone))
}

/// The days of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Days {
    All,
    /// Bit n is day n.
    Counted(u64),
    /// Bit n is the nth day from the end.
    FromEnd(u64),
}

/// An expression, as sets.
#[derive(Debug)]
struct Spec {
    /// Bit 0 is Sunday, as in cron; all of them is no restriction.
    weekdays: u64,
    /// None is every year.
    years: Option<Vec<i16>>,
    months: u64,
    days: Days,
    hours: u64,
    minutes: u64,
    seconds: u64,
    fraction: bool,
    zone: Option<String>,
}

const ALL_WEEKDAYS: u64 = 0x7f;
const ALL_MONTHS: u64 = 0x1ffe;

fn nickname(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "minutely" => "*-*-* *:*:00",
        "hourly" => "*-*-* *:00:00",
        "daily" => "*-*-* 00:00:00",
        "weekly" => "Mon *-*-* 00:00:00",
        "monthly" => "*-*-01 00:00:00",
        "quarterly" => "*-01,04,07,10-01 00:00:00",
        "biannually" | "bi-annually" | "semiannually" | "semi-annually" => "*-01,07-01 00:00:00",
        "yearly" | "annually" | "anually" => "*-01-01 00:00:00",
        _ => return None,
    })
}

impl Spec {
    fn parse(text: &str) -> Result<Self, String> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let named = words.last().filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        let zone_name = named.filter(|word| nickname(word).is_none() && weekdays(word).is_none() && zone(word).is_ok());
        let zone_name = zone_name.map(|word| (*word).to_owned());
        if zone_name.is_some() {
            words.pop();
        }
        if let [word] = words[..]
            && let Some(meaning) = nickname(word)
        {
            words = meaning.split(' ').collect();
        }
        let mut spec = Self {
            weekdays: ALL_WEEKDAYS,
            years: None,
            months: ALL_MONTHS,
            days: Days::All,
            hours: 1,
            minutes: 1,
            seconds: 1,
            fraction: false,
            zone: zone_name,
        };
        let mut words = words.into_iter().peekable();
        if words.peek().is_none() {
            return Err("it says nothing".to_owned());
        }
        if words.peek().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())) {
            let word = words.next().unwrap_or_default();
            spec.weekdays = weekdays(word).ok_or_else(|| {
                format!("{word} is no list of weekdays, no word for a calendar, and no time zone known here")
            })?;
        }
        if let Some(word) = words.next_if(|word| !word.contains(':')) {
            spec.date(word)?;
        }
        if let Some(word) = words.next() {
            spec.time(word)?;
        }
        match words.next() {
            None => Ok(spec),
            Some(word) => Err(format!("{word} is not understood; the order is weekdays, date, time, zone")),
        }
    }

    fn date(&mut self, word: &str) -> Result<(), String> {
        let (rest, from_end, day) = match (word.rsplit_once('~'), word.rsplit_once('-')) {
            (Some((rest, day)), _) => (rest, true, day),
            (None, Some((rest, day))) => (rest, false, day),
            (None, None) => return Err(format!("{word} is no date; write it as *-*-01")),
        };
        let (year, month) = match rest.rsplit_once('-') {
            Some((year, month)) => (Some(year), month),
            // `*~01` and `05-01`: a month and a day.
            None => (None, rest),
        };
        self.months = chain(month, 1, 12)?.unwrap_or(ALL_MONTHS);
        self.days = match (chain_of_days(day, from_end)?, from_end) {
            (None, true) => return Err("`~*` counts nothing from the end".to_owned()),
            (None | Some(0xffff_fffe), false) => Days::All,
            (Some(bits), true) => Days::FromEnd(bits),
            (Some(bits), false) => Days::Counted(bits),
        };
        self.years = year.map_or(Ok(None), years)?;
        Ok(())
    }

    fn time(&mut self, word: &str) -> Result<(), String> {
        let mut pieces = word.split(':');
        let (hour, minute) = (pieces.next().unwrap_or_default(), pieces.next());
        let minute = minute.ok_or_else(|| format!("{word} is no time; write it as 12:30"))?;
        self.hours = chain(hour, 0, 23)?.unwrap_or(0xff_ffff);
        self.minutes = chain(minute, 0, 59)?.unwrap_or((1 << 60) - 1);
        (self.seconds, self.fraction) = pieces.next().map_or(Ok((1, false)), seconds)?;
        match pieces.next() {
            None => Ok(()),
            Some(_) => Err(format!("{word} has more than hours, minutes and seconds")),
        }
    }

    fn parts(&self, machine_zone: &str) -> Parts {
        let mut found = Parts::default();
        let zone_name = self.zone.as_deref().unwrap_or(machine_zone);
        if self.fraction {
            found.differs.push("fractions of a second are dropped; slots are whole seconds".to_owned());
        }
        let Some(stretches) = self.stretches(zone_name) else {
            found.left_out.push("the years have too many gaps for a schedule's beginning and end".to_owned());
            return found;
        };
        let days = self.days(&mut found);
        for (starts_at, ends_at) in stretches {
            for DayFields { dom, months, dow } in &days {
                let closed = if dow.is_none() { !self.weekdays & ALL_WEEKDAYS } else { 0 };
                let dow = dow.as_deref().unwrap_or("*");
                let cron = format!("{} {dom} {} {dow}", self.clock(), list(*months, 1, 12, true));
                found.schedules.push(Part {
                    when: When::Cron(cron),
                    timezone: self.zone.clone(),
                    starts_at,
                    ends_at,
                    closed_weekdays: each(closed, 0, 6).map(|day| WEEKDAYS[day as usize]).collect(),
                });
            }
        }
        found
    }

    /// Seconds, minutes and hours, spelled out: a field that starts with `*` would follow the clock through a change of
    /// it as it is shown, and systemd takes a time that comes twice once.
    fn clock(&self) -> String {
        let (minutes, hours) = (list(self.minutes, 0, 59, false), list(self.hours, 0, 23, false));
        if self.seconds == 1 {
            return format!("{minutes} {hours}");
        }
        format!("{} {minutes} {hours}", list(self.seconds, 0, 59, false))
    }

    /// Stretches of years, as instants in the zone; `None` if there are too many.
    fn stretches(&self, zone_name: &str) -> Option<Vec<(Option<Timestamp>, Option<Timestamp>)>> {
        let Some(years) = &self.years else { return Some(vec![(None, None)]) };
        let tz = zone(zone_name).ok()?;
        let begin = |year: i16| tz.to_timestamp(date(year, 1, 1).at(0, 0, 0, 0)).ok();
        let mut stretches: Vec<(i16, i16)> = Vec::new();
        for year in years {
            match stretches.last_mut() {
                Some((_, last)) if *last + 1 == *year => *last = *year,
                _ => stretches.push((*year, *year)),
            }
        }
        if stretches.len() > STRETCHES_MAX {
            return None;
        }
        let second = jiff::SignedDuration::from_secs(1);
        stretches
            .into_iter()
            .map(|(first, last)| Some((Some(begin(first)?), Some(begin(last + 1)?.checked_sub(second).ok()?))))
            .collect()
    }

    /// The day fields, so that both of them must match.
    fn days(&self, found: &mut Parts) -> Vec<DayFields> {
        let all = self.weekdays == ALL_WEEKDAYS;
        match self.days {
            Days::All if all => vec![DayFields::new("*", self.months, "*")],
            Days::All => vec![DayFields::new("*", self.months, &list(self.weekdays, 0, 6, false))],
            Days::Counted(bits) => vec![self.counted(bits, self.months)],
            Days::FromEnd(0b10) => vec![self.both("L", self.months)],
            Days::FromEnd(0b1111_1110) if !all => {
                let last = each(self.weekdays, 0, 6).map(|day| format!("{day}L")).collect::<Vec<_>>();
                vec![DayFields::new("*", self.months, &last.join(","))]
            }
            Days::FromEnd(bits) => {
                if self.months & 0b100 != 0 {
                    let what = "in leap years February's days come one day early: cron counts only the last day (L) \
                                from the end";
                    found.differs.push(what.to_owned());
                }
                let of_length = |(length, months): (u32, u64)| {
                    let counted = each(bits, 1, 28).fold(0, |days, back| days | 1 << (length + 1 - back));
                    (self.months & months != 0).then(|| self.counted(counted, self.months & months))
                };
                LENGTHS.into_iter().filter_map(of_length).collect()
            }
        }
    }

    /// Days of the month that must also be certain weekdays. Cron asks for either of two lists, unless one of them
    /// begins with `*`; so a list that has the field's first value is written with that.
    fn counted(&self, days: u64, months: u64) -> DayFields {
        let dom = list(days, 1, 31, false);
        if self.weekdays == ALL_WEEKDAYS || self.weekdays & 1 == 1 {
            return self.both(&dom, months);
        }
        if days & 0b10 != 0 {
            return DayFields::new(&starred("*/31", days, 1, 31), months, &list(self.weekdays, 0, 6, false));
        }
        let Some(weeks) = whole_weeks(days) else { return self.both(&dom, months) };
        let nth = |day: u32| weeks.iter().map(move |week| format!("{day}#{week}"));
        let list: Vec<String> = each(self.weekdays, 0, 6).flat_map(nth).collect();
        DayFields::new("*", months, &list.join(","))
    }

    /// Days of the month with the weekdays beside them, by a calendar where the expression cannot ask for both.
    fn both(&self, dom: &str, months: u64) -> DayFields {
        if self.weekdays == ALL_WEEKDAYS {
            return DayFields::new(dom, months, "*");
        }
        if self.weekdays & 1 == 1 {
            return DayFields::new(dom, months, &starred("*/7", self.weekdays, 0, 6));
        }
        DayFields { dow: None, ..DayFields::new(dom, months, "*") }
    }
}

/// The fields of an expression that name days.
struct DayFields {
    dom: String,
    months: u64,
    /// `None` where a calendar has to close the other days of the week.
    dow: Option<String>,
}

impl DayFields {
    fn new(dom: &str, months: u64, dow: &str) -> Self {
        Self { dom: dom.to_owned(), months, dow: Some(dow.to_owned()) }
    }
}

/// A list that has the field's first value, which `star` stands for.
fn starred(star: &str, bits: u64, first: u32, last: u32) -> String {
    match bits & !(1 << first) {
        0 => star.to_owned(),
        rest => format!("{star},{}", list(rest, first, last, false)),
    }
}

/// The weeks of the month that the days fill wholly, counted from 1, if they do.
fn whole_weeks(days: u64) -> Option<Vec<u32>> {
    let week =
        |number: u32| (1..=31_u32).filter(|day| (day - 1) / 7 + 1 == number).fold(0, |bits, day| bits | 1_u64 << day);
    let weeks: Vec<u32> = (1..=5).filter(|number| days & week(*number) == week(*number)).collect();
    let filled = weeks.iter().fold(0, |bits, number| bits | week(*number));
    (filled == days).then_some(weeks)
}

fn each(bits: u64, first: u32, last: u32) -> impl Iterator<Item = u32> {
    (first..=last).filter(move |value| bits >> value & 1 == 1)
}

/// A set as a cron field, in ranges; `*` for all of them where that is wanted.
fn list(bits: u64, first: u32, last: u32, star: bool) -> String {
    let values: Vec<u32> = each(bits, first, last).collect();
    if star && values.len() == (last - first + 1) as usize {
        return "*".to_owned();
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == value => *end = value,
            _ => ranges.push((value, value)),
        }
    }
    let text = |(from, to): (u32, u32)| match to - from {
        0 => from.to_string(),
        1 => format!("{from},{to}"),
        _ => format!("{from}-{to}"),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// By their number in cron.
const WEEKDAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

fn weekdays(word: &str) -> Option<u64> {
    let day = |name: &str| {
        let name = name.to_ascii_lowercase();
        WEEKDAYS.iter().position(|whole| *whole == name || whole[..3] == name)
    };
    // The week begins on Monday there, so Sunday comes last in a range.
    let place = |day: usize| (day + 6) % 7;
    let mut bits = 0;
    for item in word.strip_suffix(',').unwrap_or(word).split(',') {
        let (from, to) = item.split_once("..").or_else(|| item.split_once('-')).unwrap_or((item, item));
        let (from, to) = (place(day(from)?), place(day(to)?));
        if from > to {
            return None;
        }
        bits = (from..=to).fold(bits, |bits, place| bits | 1 << ((place + 1) % 7));
    }
    Some(bits)
}

/// A number, a range, each with a step if there is one.
struct Item<'a> {
    from: &'a str,
    to: Option<&'a str>,
    step: Option<&'a str>,
}

fn items(text: &str) -> impl Iterator<Item = Item<'_>> {
    text.split(',').map(|item| {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let (from, to) = range.split_once("..").map_or((range, None), |(from, to)| (from, Some(to)));
        Item { from, to, step }
    })
}

fn number(text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    let wrong = || match text {
        "*" => "`*` stands alone; steps begin with a number, as in 0/5".to_owned(),
        _ => format!("{} is no number", quoted(text)),
    };
    if digits { text.parse().map_err(|_| wrong()) } else { Err(wrong()) }
}

fn outside(value: i64, min: i64, max: i64) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{value} is not between {min} and {max}")) }
}

/// First, last and step of an item within its bounds.
fn bounds(item: &Item<'_>, min: i64, max: i64) -> Result<(i64, i64, i64), String> {
    let from = number(item.from)?;
    let step = item.step.map(number).transpose()?;
    let to = match (item.to.map(number).transpose()?, step) {
        (Some(to), _) => to,
        (None, Some(_)) => max,
        (None, None) => from,
    };
    outside(from, min, max)?;
    outside(to, min, max)?;
    if from > to {
        return Err(format!("the range {from}..{to} runs backwards"));
    }
    // A step beyond an end that is written names the first value; without one it is refused.
    if step.is_some_and(|step| step < 1 || (item.to.is_none() && from + step > to)) {
        return Err(format!("the step of {from}/{} leads out of its range", step.unwrap_or(0)));
    }
    Ok((from, to, step.unwrap_or(1)))
}

/// A component as a set; `None` is `*`.
fn chain(text: &str, min: i64, max: i64) -> Result<Option<u64>, String> {
    if text == "*" {
        return Ok(None);
    }
    let mut bits = 0;
    for item in items(text) {
        bits |= chain_of_item(&item, min, max)?;
    }
    Ok(Some(bits))
}

fn chain_of_item(item: &Item<'_>, min: i64, max: i64) -> Result<u64, String> {
    let (mut value, to, step) = bounds(item, min, max)?;
    let mut bits = 0;
    while value <= to {
        bits |= 1 << value;
        value += step;
    }
    Ok(bits)
}

/// Days; a step without an end leads towards the end of the month.
fn chain_of_days(text: &str, from_end: bool) -> Result<Option<u64>, String> {
    if !from_end || text == "*" {
        return chain(text, 1, 31);
    }
    let mut bits = 0;
    for item in items(text) {
        if item.to.is_some() || item.step.is_none() {
            bits |= chain_of_item(&item, 1, 28)?;
            continue;
        }
        let (mut back, step) = (number(item.from)?, item.step.map_or(Ok(1), number)?);
        outside(back, 1, 28)?;
        outside(step, 1, back - 1)?;
        while back >= 1 {
            bits |= 1 << back;
            back -= step;
        }
    }
    Ok(Some(bits))
}

/// Seconds as a set, and whether some of them had a fraction.
fn seconds(text: &str) -> Result<(u64, bool), String> {
    const MICROS: i64 = 1_000_000;
    if text == "*" {
        return Ok(((1 << 60) - 1, false));
    }
    let micros = |text: &str| -> Result<i64, String> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let padded = format!("{:0<6}", fraction.chars().take(6).collect::<String>());
        Ok(number(whole)? * MICROS + number(&padded)?)
    };
    let (mut bits, mut fraction) = (0, false);
    for item in items(text) {
        let from = micros(item.from)?;
        let step = item.step.map(micros).transpose()?;
        let to = match (item.to.map(micros).transpose()?, step) {
            (Some(to), _) => to,
            (None, Some(_)) => 60 * MICROS - 1,
            (None, None) => from,
        };
        outside(from / MICROS, 0, 59)?;
        outside(to / MICROS, 0, 59)?;
        if from > to || step.is_some_and(|step| step < 1 || (item.to.is_none() && from + step > to)) {
            return Err(format!("{} leads out of the minute", quoted(text)));
        }
        fraction |= [Some(from), step].into_iter().flatten().any(|value| value % MICROS != 0);
        let mut value = from;
        while value <= to {
            bits |= 1 << (value / MICROS);
            // Steps below a second name every second anyway.
            value += step.unwrap_or(MICROS).max(MICROS / 2);
        }
    }
    Ok((bits, fraction))
}

/// Years in order, each once; two digits are of this century or the last.
fn years(text: &str) -> Result<Option<Vec<i16>>, String> {
    if text == "*" {
        return Ok(None);
    }
    let century = |year: i64| match year {
        0..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    };
    let mut years = std::collections::BTreeSet::new();
    for item in items(text) {
        let step = item.step.map(number).transpose()?;
        let from = century(number(item.from)?);
        let to = match (item.to.map(number).transpose()?, step) {
            (Some(to), _) => century(to),
            (None, Some(_)) => 2199,
            (None, None) => from,
        };
        outside(from, 1970, 2199)?;
        outside(to, 1970, 2199)?;
        if from > to || step.is_some_and(|step| step < 1 || (item.to.is_none() && from + step > to)) {
            return Err(format!("the years {from}..{to} lead nowhere"));
        }
        let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1);
        years.extend((from..=to).step_by(step).filter_map(|year| i16::try_from(year).ok()));
    }
    Ok(Some(years.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crons(text: &str) -> Vec<String> {
        let parts = read(text, "UTC").unwrap().schedules;
        let cron = |part: Part| match part.when {
            When::Cron(cron) => cron,
            When::At(at) => at.to_string(),
        };
        parts.into_iter().map(cron).collect()
    }

    #[test]
    fn forms_become_expressions_in_which_both_day_fields_must_match() {
        for (form, cron) in [
            ("daily", "0 0 * * *"),
            ("minutely", "0-59 0-23 * * *"),
            ("Mon..Fri 08:30", "30 8 * * 1-5"),
            ("Sun *-*-1..7 1:00", "0 1 1-7 * */7"),
            ("Mon,Tue *-*-1..7", "0 0 */31,2-7 * 1,2"),
            ("Mon *-*-8..14", "0 0 * * 1#2"),
            ("Fri *-*~07/1", "0 0 * * 5L"),
            ("*-*~01", "0 0 L * *"),
            ("*:*:10,20", "10,20 0-59 0-23 * * *"),
            ("*-2..4,12-*", "0 0 * 2-4,12 *"),
            ("8..10/4:0", "0 8 * * *"),
            ("2026..2027/5-1-1", "0 0 1 1 *"),
            ("@1395716396", "2014-03-25T02:59:56Z"),
        ] {
            assert_eq!(crons(form), [cron], "{form}");
        }
        assert_eq!(crons("*-1,4~03"), ["0 0 29 1 *", "0 0 28 4 *"]);
        assert_eq!(crons("2026,2028-05-01").len(), 2);
    }

    #[test]
    fn what_cannot_be_said_is_told_and_what_systemd_refuses_is_refused() {
        let other_days = read("Mon *-*-13", "UTC").unwrap().schedules.remove(0).closed_weekdays;
        assert_eq!(other_days, ["sunday", "tuesday", "wednesday", "thursday", "friday", "saturday"]);
        assert_eq!(read("2000/3-1-1", "UTC").unwrap().left_out.len(), 1);
        assert_eq!(read("*-2~03", "UTC").unwrap().differs.len(), 1);
        assert_eq!(read("*:*:0.5", "UTC").unwrap().differs.len(), 1);
        for form in [
            "",
            "Fri..Mon",
            "*-*-*/2",
            "5",
            "24:00",
            "*:60",
            "*:5/55",
            "8..9/0:0",
            "*-*~3/9",
            "2026/300-1-1",
            "*-*-0",
            "*-13-1",
            "noon",
            "1:2:3:4",
        ] {
            assert!(read(form, "UTC").is_err(), "{form}");
        }
    }
}
