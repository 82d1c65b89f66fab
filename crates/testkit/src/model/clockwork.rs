//! When slots are: by plain arithmetic, or by looking at a wall clock minute after minute.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Microseconds since 1970.
pub type Micros = i64;

/// One second.
pub const SECOND: Micros = 1_000_000;

/// One minute.
const MINUTE: Micros = 60 * SECOND;

/// A rhythm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// So many seconds after the anchor, and again.
    Every(i64),
    /// At every minute of the hour that so many minutes divide, in UTC.
    Minutes(i64),
    /// At times of day in a time zone, clock changes included.
    Local(&'static LocalTimes),
    /// Once.
    At(Micros),
}

/// Times of day in a zone, made together with the cron expression that means them, so that nothing is parsed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct LocalTimes {
    /// The expression.
    pub expression: &'static str,
    /// The zone.
    pub zone: &'static str,
    /// The hours.
    pub hours: std::ops::RangeInclusive<i8>,
    /// The minutes.
    pub minutes: &'static [i8],
    /// The days of the week, Sunday being 0.
    pub weekdays: std::ops::RangeInclusive<i8>,
    /// Whether it stands for stretches of time, and not for single times: then clock changes repeat and drop slots.
    pub wildcard: bool,
}

impl LocalTimes {
    fn shows(&self, wall: DateTime) -> bool {
        wall.second() == 0
            && self.hours.contains(&wall.hour())
            && self.minutes.contains(&wall.minute())
            && self.weekdays.contains(&wall.weekday().to_sunday_zero_offset())
    }

    /// The slots of one date by the zone's own calendar, in order.
    fn on(&'static self, date: Date) -> Rc<[Micros]> {
        type Known = HashMap<(&'static LocalTimes, Date), Rc<[Micros]>>;
        thread_local! {
            static KNOWN: RefCell<Known> = RefCell::default();
        }
        if let Some(known) = KNOWN.with_borrow(|known| known.get(&(self, date)).cloned()) {
            return known;
        }
        let zone = TimeZone::get(self.zone).expect("the zone is known");
        let found: BTreeSet<Micros> = if self.wildcard { self.repeated(date, &zone) } else { self.single(date, &zone) };
        let found: Rc<[Micros]> = found.into_iter().collect();
        KNOWN.with_borrow_mut(|known| known.insert((self, date), Rc::clone(&found)));
        found
    }

    /// Every minute at which the wall clock shows one of the times, on that date.
    fn repeated(&self, date: Date, zone: &TimeZone) -> BTreeSet<Micros> {
        let minutes = minutes_around(date.at(12, 0, 0, 0), zone, SignedDuration::from_hours(16));
        minutes.filter(|(_, wall)| wall.date() == date && self.shows(*wall)).map(|(at, _)| at).collect()
    }

    /// For each time the first minute at which the wall clock shows it or a later one.
    fn single(&self, date: Date, zone: &TimeZone) -> BTreeSet<Micros> {
        let mut found = BTreeSet::new();
        for hour in self.hours.clone() {
            for minute in self.minutes {
                let wall = date.at(hour, *minute, 0, 0);
                if self.shows(wall) {
                    let mut minutes = minutes_around(wall, zone, SignedDuration::from_hours(4));
                    found.extend(minutes.find(|(_, shown)| *shown >= wall).map(|(at, _)| at));
                }
            }
        }
        found
    }

    fn next(&'static self, after: Micros) -> Option<Micros> {
        let zone = TimeZone::get(self.zone).expect("the zone is known");
        let after_wall = zone.to_datetime(Timestamp::from_microsecond(after).expect("the model stays within time"));
        (-1..10).find_map(|days| {
            let date = after_wall.date().saturating_add(days.days());
            self.on(date).iter().copied().find(|slot| *slot > after)
        })
    }
}

/// The minutes before and after a wall time, each with what the wall clock shows then.
fn minutes_around(
    wall: DateTime, zone: &TimeZone, reach: SignedDuration,
) -> impl Iterator<Item = (Micros, DateTime)> + use<> {
    let near = wall.to_zoned(zone.clone()).expect("the model stays within time").timestamp();
    let begin = (near - reach).as_microsecond() / MINUTE * MINUTE;
    let minutes = reach.as_mins() * 2;
    let zone = zone.clone();
    (0..minutes).map(move |minute| {
        let at = begin + minute * MINUTE;
        (at, zone.to_datetime(Timestamp::from_microsecond(at).expect("the model stays within time")))
    })
}

impl Beat {
    /// All slots after one instant, up to another, one by one.
    pub fn between(self, anchor: Micros, after: Micros, until: Micros) -> Vec<Micros> {
        let mut found = Vec::new();
        let mut slot = self.next(anchor, after);
        while let Some(at) = slot.filter(|at| *at <= until) {
            found.push(at);
            slot = self.next(anchor, at);
        }
        found
    }

    /// The first slot after an instant.
    pub fn next(self, anchor: Micros, after: Micros) -> Option<Micros> {
        match self {
            Self::Every(seconds) => Some(next_multiple(anchor, seconds * SECOND, after.max(anchor))),
            Self::Minutes(minutes) => Some(next_multiple(0, minutes * 60 * SECOND, after)),
            Self::Local(times) => times.next(after),
            Self::At(at) => (at > after).then_some(at),
        }
    }
}

fn next_multiple(from: Micros, step: Micros, after: Micros) -> Micros {
    let mut slot = from + (after - from) / step * step;
    while slot <= after {
        slot += step;
    }
    slot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d05_beats_are_listed_one_by_one() {
        let listed = Beat::Every(7).between(100 * SECOND, 0, 121 * SECOND);
        assert_eq!(listed, [107 * SECOND, 114 * SECOND, 121 * SECOND]);
        assert_eq!(Beat::Minutes(15).next(0, 899 * SECOND), Some(900 * SECOND));
        assert_eq!(Beat::Minutes(15).next(0, 900 * SECOND), Some(1800 * SECOND));
        assert_eq!(Beat::At(5).between(0, 4, 9), [5]);
        assert_eq!(Beat::At(5).next(0, 5), None);
    }

    /// New York's clocks go forward on 2025-03-09 at 02:00 and back on 2025-11-02 at 02:00.
    #[test]
    fn d06_local_times_follow_the_wall_clock_over_its_changes() {
        static FIXED: LocalTimes = local("15,45 1,2 * * *", 1, 2, &[15, 45], false);
        static WILD: LocalTimes = local("*/30 1-2 * * *", 1, 2, &[0, 30], true);
        let utc = |text: &str| text.parse::<Timestamp>().unwrap().as_microsecond();
        let between =
            |times: &'static LocalTimes, from: &str, to: &str| Beat::Local(times).between(0, utc(from), utc(to));
        let spring = |times| between(times, "2025-03-09T00:00:00Z", "2025-03-09T23:00:00Z");
        let autumn = |times| between(times, "2025-11-02T00:00:00Z", "2025-11-02T23:00:00Z");
        let at = |texts: &[&str]| texts.iter().map(|text| utc(text)).collect::<Vec<_>>();
        assert_eq!(spring(&FIXED), at(&["2025-03-09T06:15:00Z", "2025-03-09T06:45:00Z", "2025-03-09T07:00:00Z"]));
        assert_eq!(spring(&WILD), at(&["2025-03-09T06:00:00Z", "2025-03-09T06:30:00Z"]));
        let first_pass =
            ["2025-11-02T05:15:00Z", "2025-11-02T05:45:00Z", "2025-11-02T07:15:00Z", "2025-11-02T07:45:00Z"];
        assert_eq!(autumn(&FIXED), at(&first_pass));
        assert_eq!(autumn(&WILD).len(), 6);
    }

    const fn local(expression: &'static str, from: i8, to: i8, minutes: &'static [i8], wildcard: bool) -> LocalTimes {
        LocalTimes { expression, zone: "America/New_York", hours: from..=to, minutes, weekdays: 0..=6, wildcard }
    }
}
