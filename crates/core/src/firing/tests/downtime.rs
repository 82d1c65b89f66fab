//! Down for an hour, a day or a year: schedules from every second to yearly against an oracle that counts.
//!
//! The oracle knows the line of slots by arithmetic, or by going through a calendar, and never asks the rule that it
//! judges; only by how much jitter holds a slot back is taken from it, because any value below the gap is right.

use super::bounded::STEPS_PER_DECISION;
use super::*;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proptest::prelude::*;

/// A schedule's rhythm.
#[derive(Debug, Clone)]
enum Rhythm {
    /// Elapsed seconds from the schedule's beginning.
    Every(i64),
    /// An expression that is due at every multiple of so many seconds, in UTC.
    Even(&'static str, i64),
    /// An expression that is due at midnight of some days.
    Midnight(&'static str, &'static str, fn(Date) -> bool),
}

/// The slots of a rhythm in order, without listing those of which there are millions.
enum Line {
    Regular { first: Timestamp, period: SignedDuration },
    Listed(Vec<Timestamp>),
}

impl Line {
    fn get(&self, index: i64) -> Timestamp {
        match self {
            Self::Regular { first, period } => *first + *period * i32::try_from(index).unwrap(),
            Self::Listed(slots) => slots[usize::try_from(index).unwrap()],
        }
    }

    /// How many lie at or before an instant.
    fn count_until(&self, at: Timestamp) -> i64 {
        match self {
            Self::Regular { first, .. } if at < *first => 0,
            Self::Regular { first, period } => {
                i64::try_from(at.duration_since(*first).as_micros() / period.as_micros()).unwrap() + 1
            }
            Self::Listed(slots) => i64::try_from(slots.partition_point(|slot| *slot <= at)).unwrap(),
        }
    }
}

#[derive(Debug, Clone)]
struct Case {
    rhythm: Rhythm,
    begin: Timestamp,
    missed: Missed,
    jitter: SignedDuration,
    down: SignedDuration,
}

fn rhythm() -> impl Strategy<Value = Rhythm> {
    let day_of_month = |wanted: fn(Date) -> bool| wanted;
    prop_oneof![
        2 => prop_oneof![1_i64..10, 10_i64..10_000, 10_000_i64..40_000_000].prop_map(Rhythm::Every),
        3 => prop::sample::select(vec![
            ("* * * * * *", 1), ("*/5 * * * * *", 5), ("* * * * *", 60), ("*/10 * * * *", 600), ("0 * * * *", 3_600),
            ("0 */6 * * *", 21_600), ("0 0 * * *", 86_400),
        ]).prop_map(|(expression, period)| Rhythm::Even(expression, period)),
        2 => prop::sample::select(vec![
            ("0 0 1 * *", day_of_month(|date| date.day() == 1)),
            ("0 0 1 1 *", day_of_month(|date| date.day() == 1 && date.month() == 1)),
            ("0 0 29 2 *", day_of_month(|date| date.day() == 29 && date.month() == 2)),
            ("0 0 * * 1", day_of_month(|date| date.weekday().to_monday_one_offset() == 1)),
        ]).prop_flat_map(|(expression, days)| {
            let zone = prop::sample::select(vec!["UTC", "Europe/Berlin", "Asia/Kathmandu"]);
            zone.prop_map(move |zone| Rhythm::Midnight(expression, zone, days))
        }),
    ]
}

fn missed() -> impl Strategy<Value = Missed> {
    let window = || prop_oneof![1_i64..3_600, 3_600_i64..200_000, 200_000_i64..70_000_000].prop_map(secs);
    prop_oneof![
        Just(Missed::SKIP),
        window().prop_map(|window| Missed::Skip { window }),
        prop::option::of(window()).prop_map(|window| Missed::Once { window }),
        (prop_oneof![1_u32..10, 10_u32..2_000], prop::option::of(window()))
            .prop_map(|(limit, window)| Missed::All { limit, window }),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let begin = (1_700_000_000_i64..1_900_000_000).prop_map(|second| Timestamp::from_second(second).unwrap());
    let length = prop::sample::select(vec![secs(3_600), secs(86_400), secs(365 * 86_400)]);
    let down = (length, -70_000_i64..70_000).prop_map(|(length, ms)| length + SignedDuration::from_millis(ms));
    let jitter = prop_oneof![3 => Just(0_i64), 1 => 1_i64..5_000].prop_map(secs);
    (rhythm(), begin, missed(), jitter, down).prop_map(|(rhythm, begin, missed, jitter, down)| Case {
        rhythm,
        begin,
        missed,
        jitter,
        down,
    })
}

fn timing(rhythm: &Rhythm) -> TimingSpec {
    match rhythm {
        Rhythm::Every(seconds) => TimingSpec::Every { period: secs(*seconds) },
        Rhythm::Even(expression, _) => TimingSpec::cron(*expression, "UTC"),
        Rhythm::Midnight(expression, zone, _) => TimingSpec::cron(*expression, *zone),
    }
}

fn line(case: &Case) -> Line {
    match case.rhythm {
        Rhythm::Every(seconds) => Line::Regular { first: case.begin + secs(seconds), period: secs(seconds) },
        Rhythm::Even(_, period) => {
            let first = (case.begin.as_second() / period + 1) * period;
            Line::Regular { first: Timestamp::from_second(first).unwrap(), period: secs(period) }
        }
        Rhythm::Midnight(expression, zone, days) => {
            let zone = TimeZone::get(zone).unwrap();
            let first = zone.to_datetime(case.begin).date();
            // The first slot, a year of downtime and the next slot; a leap day may be eight years away.
            let years = if expression.contains("29 2") { 14 } else { 4 };
            let dates = (0..years * 366).map(|day| first.saturating_add(day.days())).filter(|date| days(*date));
            let midnights = dates.map(|date| date.to_zoned(zone.clone()).unwrap().timestamp());
            Line::Listed(midnights.filter(|slot| *slot > case.begin).collect())
        }
    }
}

/// What the design's words make of a downtime.
fn oracle(line: &Line, due: &dyn Fn(i64) -> Timestamp, missed: Missed, now: Timestamp) -> String {
    let mut total = line.count_until(now);
    if total > 0 && due(total - 1) > now {
        total -= 1;
    }
    let late = |index: i64| now.duration_since(due(index));
    let within = |index: i64, window: Option<SignedDuration>| window.is_none_or(|window| late(index) <= window);
    let (begin, why_not) = match missed {
        _ if total == 0 => (0, Reason::TooLate),
        Missed::Skip { window } if within(total - 1, Some(window)) => (total - 1, Reason::Superseded),
        Missed::Once { window } if within(total - 1, window) => (total - 1, Reason::Superseded),
        Missed::Skip { .. } | Missed::Once { .. } => (total, Reason::TooLate),
        Missed::All { limit, window } => {
            // The first that is young enough, by halving.
            let (mut young, mut old) = (total, -1);
            while young - old > 1 {
                let middle = old + (young - old) / 2;
                if within(middle, window) { young = middle } else { old = middle }
            }
            let surplus = (total - young - i64::from(limit)).max(0);
            (young + surplus, if surplus > 0 { Reason::OverLimit } else { Reason::TooLate })
        }
    };
    let on_time = |index: i64| match missed {
        Missed::Skip { .. } => true,
        Missed::Once { .. } => total == 1 && late(index) <= secs(60),
        Missed::All { .. } => index == total - 1 && late(index) <= secs(60),
    };
    let row = |first, last, count: i64, decision, reason| DecidedSlot {
        slot_at: line.get(first),
        through: line.get(last),
        count: count.unsigned_abs(),
        decision,
        reason,
        late_ms: 0,
        job: None,
        note: None,
    };
    let mut slots = Vec::new();
    if begin > 0 {
        slots.push(row(0, begin - 1, begin, Decision::Missed, why_not));
    }
    let end = total.min(begin + i64::try_from(SLOTS_PER_PASS).unwrap());
    for index in begin..end {
        let reason = if on_time(index) { Reason::OnTime } else { Reason::Catchup };
        slots.push(row(index, index, 1, Decision::Fired, reason));
    }
    said(&Firing { slots, next: Next::Slot(NextSlot { slot_at: line.get(end), run_at: due(end) }) })
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn a05_down_for_an_hour_a_day_or_a_year_is_decided_as_an_oracle_says(case in cases()) {
        let schedule = schedule_made_at(case.begin, timing(&case.rhythm), |definition| {
            definition.missed = case.missed;
            definition.jitter = case.jitter;
        });
        let line = line(&case);
        let slots = schedule.slots().unwrap();
        let due = |index: i64| slots.due_at(line.get(index));
        let now = due(0) + case.down;
        let expected = oracle(&line, &due, case.missed, now);
        let (firing, steps) = steps_of(|| schedule.fire(now, &Facts::default()));
        prop_assert_eq!(said(&firing), expected);
        prop_assert!(steps <= STEPS_PER_DECISION, "{} steps", steps);
    }
}
