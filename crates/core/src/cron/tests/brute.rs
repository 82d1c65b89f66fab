//! A slow, obvious second opinion: every minute or second is asked in turn whether it fires.
//!
//! It shares no code with the module it checks: fields are made together with the set of values they
//! stand for (so nothing is parsed), days are asked of the date library, and zones are only ever
//! used to translate one time at a time.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;

use crate::cron::{Dst, DstGap, DstOverlap};

/// A day named by more than a number.
#[derive(Clone, Debug)]
pub(super) enum Mark {
    Last,
    LastWeekday,
    Nearest(i8),
    LastOf(i8),
    Nth(i8, i8),
}

/// A field as text and as what it means.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) text: String,
    values: BTreeSet<i8>,
    marks: Vec<Mark>,
}

impl Slice {
    fn starred(&self) -> bool {
        self.text.starts_with('*') || self.text.starts_with('?')
    }
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) second: Option<Slice>,
    pub(super) minute: Slice,
    pub(super) hour: Slice,
    pub(super) day: Slice,
    pub(super) month: Slice,
    pub(super) weekday: Slice,
}

impl Job {
    pub(super) fn text(&self) -> String {
        let fields = [&self.minute, &self.hour, &self.day, &self.month, &self.weekday];
        let fields = self.second.iter().chain(fields);
        fields.map(|field| field.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn fixed(&self) -> bool {
        let second_starred = self.second.as_ref().is_some_and(Slice::starred);
        !(second_starred || self.minute.starred() || self.hour.starred())
    }

    pub(super) fn on(&self, date: Date) -> bool {
        let by_day = self.day.values.contains(&date.day()) || self.day.marks.iter().any(|mark| marked(mark, date));
        let weekday = date.weekday().to_sunday_zero_offset();
        let by_weekday = self.weekday.values.contains(&weekday)
            || (weekday == 0 && self.weekday.values.contains(&7))
            || self.weekday.marks.iter().any(|mark| marked(mark, date));
        let days =
            if self.day.starred() || self.weekday.starred() { by_day && by_weekday } else { by_day || by_weekday };
        days && self.month.values.contains(&date.month())
    }

    fn at(&self, wall: DateTime) -> bool {
        let second = self.second.as_ref().map_or(wall.second() == 0, |field| field.values.contains(&wall.second()));
        second
            && self.minute.values.contains(&wall.minute())
            && self.hour.values.contains(&wall.hour())
            && self.on(wall.date())
    }
}

fn marked(mark: &Mark, date: Date) -> bool {
    let last = date.last_of_month();
    let working = |date: Date| !matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
    let weekday = date.weekday().to_sunday_zero_offset();
    match *mark {
        Mark::Last => date == last,
        Mark::LastWeekday => {
            let mut day = last;
            while !working(day) {
                day = day.yesterday().unwrap();
            }
            date == day
        }
        Mark::Nearest(day) if day > last.day() => false,
        Mark::Nearest(day) => {
            let wanted = date.with().day(day).build().unwrap();
            // Nearest first; of two as near, only one is a working day.
            [0, -1, 1, -2, 2]
                .into_iter()
                .map(|shift| wanted.saturating_add(shift.days()))
                .find(|near| near.month() == date.month() && working(*near))
                == Some(date)
        }
        Mark::LastOf(day) => weekday == day % 7 && date.day() > last.day() - 7,
        Mark::Nth(day, nth) => weekday == day % 7 && (date.day() - 1) / 7 + 1 == nth,
    }
}

/// All fires after `after` and up to `until`, by asking every step.
pub(super) fn fires(job: &Job, zone: &TimeZone, dst: Dst, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let step = SignedDuration::from_secs(if job.second.is_some() { 1 } else { 60 });
    let found = if job.fixed() {
        // A wall time's instant can be a whole missing day away from it.
        let day = SignedDuration::from_hours(26);
        let first = round_down(zone.to_datetime(after - day), step);
        let last = zone.to_datetime(until + day);
        fixed(job, zone, dst, first, last, step)
    } else {
        // Offsets are whole minutes in the years tested.
        let mut at = Timestamp::from_second(after.as_second().div_euclid(60) * 60).unwrap();
        let mut found = BTreeSet::new();
        while at <= until {
            if job.at(zone.to_datetime(at)) {
                found.insert(at);
            }
            at += step;
        }
        found
    };
    found.into_iter().filter(|at| *at > after && *at <= until).collect()
}

fn round_down(wall: DateTime, step: SignedDuration) -> DateTime {
    let wall = wall.with().subsec_nanosecond(0).build().unwrap();
    if step.as_secs() == 60 { wall.with().second(0).build().unwrap() } else { wall }
}

fn fixed(
    job: &Job, zone: &TimeZone, dst: Dst, first: DateTime, last: DateTime, step: SignedDuration,
) -> BTreeSet<Timestamp> {
    let mut found = BTreeSet::new();
    let mut wall = first;
    while wall <= last {
        if job.at(wall) {
            found.extend(instants(zone, dst, wall));
        }
        wall = wall.checked_add(step).unwrap();
    }
    found
}

/// The instants at which a fixed-time job fires for one wall time.
pub(super) fn instants(zone: &TimeZone, dst: Dst, wall: DateTime) -> Vec<Timestamp> {
    match zone.to_ambiguous_timestamp(wall).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset.to_timestamp(wall).unwrap()],
        AmbiguousOffset::Fold { before, after } => {
            let (first, second) = (before.to_timestamp(wall), after.to_timestamp(wall));
            let (first, second) = (first.unwrap(), second.unwrap());
            match dst.overlap {
                DstOverlap::First => vec![first],
                DstOverlap::Both => vec![first, second],
                DstOverlap::Second => vec![second],
            }
        }
        AmbiguousOffset::Gap { before, .. } => {
            if dst.gap == DstGap::Skip {
                return Vec::new();
            }
            // Read with the old offset, a time in the gap is an instant just behind the change.
            let behind = before.to_timestamp(wall).unwrap();
            let change = zone.preceding(behind + SignedDuration::from_secs(1)).next().unwrap();
            vec![change.timestamp()]
        }
    }
}

/// Fields of `low..=high`, with `usual` values more often than others.
fn slice(low: i8, high: i8, usual: &'static [i8]) -> BoxedStrategy<Slice> {
    let value = || prop_oneof![proptest::sample::select(usual), low..=high];
    let item = prop_oneof![
        4 => value().prop_map(move |v| (v.to_string(), v, v, 1)),
        2 => (value(), value()).prop_map(move |(a, b)| {
            let (a, b) = (a.min(b), a.max(b));
            (format!("{a}-{b}"), a, b, 1)
        }),
        2 => (value(), value(), 1..20_i8).prop_map(move |(a, b, n)| {
            let (a, b) = (a.min(b), a.max(b));
            (format!("{a}-{b}/{n}"), a, b, n)
        }),
        1 => (value(), 1..20_i8).prop_map(move |(a, n)| (format!("{a}/{n}"), a, high, n)),
        1 => (1..=high).prop_map(move |n| (format!("*/{n}"), low, high, n)),
    ];
    prop_oneof![
        3 => Just(vec![("*".to_owned(), low, high, 1)]),
        1 => Just(vec![("?".to_owned(), low, high, 1)]),
        2 => (1..=high).prop_map(move |n| vec![(format!("*/{n}"), low, high, n)]),
        5 => proptest::collection::vec(item, 1..4),
    ]
    .prop_map(|items| {
        let text: Vec<_> = items.iter().map(|item| item.0.clone()).collect();
        let mut values = BTreeSet::new();
        for (_, a, b, n) in items {
            values.extend((a..=b).step_by(usize::try_from(n).unwrap()));
        }
        Slice { text: text.join(","), values, marks: Vec::new() }
    })
    .boxed()
}

fn with_marks(
    plain: BoxedStrategy<Slice>, mark: impl Strategy<Value = (String, Mark)> + 'static,
) -> BoxedStrategy<Slice> {
    let marks = proptest::collection::vec(mark, 1..3).boxed();
    prop_oneof![
        4 => plain.clone(),
        1 => marks.clone().prop_map(|marks| {
            let text: Vec<_> = marks.iter().map(|mark| mark.0.clone()).collect();
            let marks = marks.into_iter().map(|mark| mark.1).collect();
            Slice { text: text.join(","), values: BTreeSet::new(), marks }
        }),
        1 => (plain, marks).prop_map(|(mut slice, marks)| {
            for (text, mark) in marks {
                slice.text = format!("{},{text}", slice.text);
                slice.marks.push(mark);
            }
            slice
        }),
    ]
    .boxed()
}

fn day_slice() -> BoxedStrategy<Slice> {
    let mark = prop_oneof![
        Just(("L".to_owned(), Mark::Last)),
        Just(("lw".to_owned(), Mark::LastWeekday)),
        (1..=31_i8).prop_map(|n| (format!("{n}W"), Mark::Nearest(n))),
    ];
    with_marks(slice(1, 31, &[1, 13, 29, 30, 31]), mark)
}

fn weekday_slice() -> BoxedStrategy<Slice> {
    let mark = prop_oneof![
        (0..=7_i8).prop_map(|n| (format!("{n}L"), Mark::LastOf(n))),
        (0..=7_i8, 1..=5_i8).prop_map(|(n, k)| (format!("{n}#{k}"), Mark::Nth(n, k))),
    ];
    with_marks(slice(0, 7, &[0, 1, 5, 7]), mark)
}

fn star(low: i8, high: i8) -> Slice {
    Slice { text: "*".into(), values: (low..=high).collect(), marks: Vec::new() }
}

/// Jobs of five or six fields; days are mostly free, or a window of days would see no fire.
pub(super) fn jobs() -> impl Strategy<Value = Job> {
    let clock = (
        prop_oneof![4 => Just(None), 1 => slice(0, 59, &[0, 30]).prop_map(Some)],
        slice(0, 59, &[0, 15, 30, 45]),
        slice(0, 23, &[0, 1, 2, 3, 23]),
    );
    let days = prop_oneof![2 => Just((star(1, 31), star(1, 12), star(0, 7))), 1 => day_fields()];
    (clock, days).prop_map(|((second, minute, hour), (day, month, weekday))| Job {
        second,
        minute,
        hour,
        day,
        month,
        weekday,
    })
}

fn day_fields() -> impl Strategy<Value = (Slice, Slice, Slice)> {
    let month = prop_oneof![Just(star(1, 12)), slice(1, 12, &[2, 3, 10])];
    (day_slice(), month, weekday_slice())
}

/// Jobs at one time of day, for comparing days alone over years.
pub(super) fn daily_jobs() -> impl Strategy<Value = Job> {
    day_fields().prop_map(|(day, month, weekday)| {
        let one = |text: &str, value| Slice { text: text.into(), values: BTreeSet::from([value]), marks: Vec::new() };
        Job { second: None, minute: one("30", 30), hour: one("12", 12), day, month, weekday }
    })
}
