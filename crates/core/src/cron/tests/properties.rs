//! Random expressions, zones and times against the brute-force walk; garbage against everything.

use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use proptest::prelude::*;

use super::brute::{self, Job};
use crate::cron::{Cron, CronClock, CronProblem, Dst, DstGap, DstOverlap, Recurrence, zone};
use crate::duration::parse_duration;

const ZONES: [&str; 12] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Santiago",
    "Asia/Beirut",
    "Africa/Cairo",
    "Asia/Kolkata",
    "Africa/Casablanca",
    "America/Asuncion",
    "Asia/Pyongyang",
];

/// `PROPTEST_CASES` asks for a longer run; without it the suite stays quick.
fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    config
}

fn dsts() -> impl Strategy<Value = Dst> {
    let gap = prop_oneof![2 => Just(DstGap::Next), 1 => Just(DstGap::Skip)];
    let overlap = prop_oneof![
        2 => Just(DstOverlap::First),
        1 => Just(DstOverlap::Both),
        1 => Just(DstOverlap::Second),
    ];
    (gap, overlap).prop_map(|(gap, overlap)| Dst { gap, overlap })
}

/// A zone and a time in it, half of the times within a day and a half of a change of clock.
fn places() -> impl Strategy<Value = (TimeZone, Timestamp)> {
    // 1980 to 2037, so that rules beyond the tables of the zone files are met as well.
    let seconds = 315_532_800..2_145_916_800_i64;
    let near = any::<bool>();
    let shift = -130_000..130_000_i64;
    (proptest::sample::select(&ZONES[..]), seconds, near, shift).prop_map(|(name, second, near, shift)| {
        let zone = zone(name).unwrap();
        let mut at = Timestamp::from_second(second).unwrap();
        if near && let Some(change) = zone.following(at).next() {
            at = change.timestamp() + SignedDuration::from_secs(shift);
        }
        (zone, at)
    })
}

/// Whether the job's days exist; if not, the expression must be refused for exactly that.
fn possible(job: &Job) -> bool {
    let mut day = date(2000, 1, 1);
    while day.year() < 2028 {
        if job.on(day) {
            return true;
        }
        day = day.tomorrow().unwrap();
    }
    false
}

fn parsed(job: &Job) -> Option<Cron> {
    match Cron::parse(&job.text()) {
        Ok(cron) => Some(cron),
        Err(error) => {
            assert_eq!(*error.problem(), CronProblem::ImpossibleDate, "{}: {error}", job.text());
            assert!(!possible(job), "{} is possible", job.text());
            None
        }
    }
}

fn check_against_walk(job: &Job, zone: &TimeZone, after: Timestamp, dst: Dst) {
    let Some(cron) = parsed(job) else { return };
    let clock = CronClock::new(cron, zone.clone(), dst);
    let hours = if job.second.is_some() { 4 } else { 80 };
    let until = after + SignedDuration::from_hours(hours);
    let expected = brute::fires(job, zone, dst, after, until);
    let context = format!("{:?} {:?} {dst:?} after {after}", job.text(), zone.iana_name());

    let walked: Vec<_> = clock.fires_after(after).take_while(|fire| *fire <= until).collect();
    assert_eq!(walked, expected, "{context}");
    // Asked one by one, from the fire before; a sample is enough for the dense ones.
    for pair in expected.windows(2).take(200) {
        assert_eq!(clock.next_after(pair[0]), Some(pair[1]), "{context}, from {}", pair[0]);
    }
    assert_eq!(clock.next_after(after).filter(|fire| *fire <= until), expected.first().copied());
    assert_eq!(clock.count_between(after, until), expected.len() as u64, "{context}");

    for sixth in 1..6 {
        let middle = after + SignedDuration::from_secs(hours * 600 * sixth - 7);
        let split = expected.partition_point(|fire| *fire <= middle);
        let latest = clock.latest_at_or_before(middle).filter(|fire| *fire > after);
        let before = split.checked_sub(1).map(|index| expected[index]);
        assert_eq!(latest, before, "{context}, latest at {middle}");
        assert_eq!(clock.count_between(after, middle), split as u64, "{context}, until {middle}");
        let next = clock.next_after(middle).filter(|fire| *fire <= until);
        assert_eq!(next, expected.get(split).copied(), "{context}, next after {middle}");
    }
    for fire in expected.iter().take(50) {
        assert_eq!(clock.latest_at_or_before(*fire), Some(*fire), "{context}");
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn b05_fires_are_those_of_a_brute_force_walk(
        job in brute::jobs(),
        (zone, after) in places(),
        dst in dsts(),
    ) {
        check_against_walk(&job, &zone, after, dst);
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn d05_days_are_those_of_a_brute_force_walk(job in brute::daily_jobs(), year in 1600..2400_i16) {
        let Some(cron) = parsed(&job) else { return Ok(()) };
        let clock = CronClock::new(cron, TimeZone::UTC, Dst::default());
        let noon = |date: Date| date.at(12, 30, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
        let (first, last) = (date(year, 1, 1), date(year + 3, 12, 31));
        let expected: Vec<_> = first.series(1.day()).take_while(|day| *day <= last)
            .filter(|day| job.on(*day)).map(noon).collect();
        let (after, until) = (noon(first) - 1.hour(), noon(last));
        let walked: Vec<_> = clock.fires_after(after).take_while(|fire| *fire <= until).collect();
        prop_assert_eq!(&walked, &expected, "{}", job.text());
        prop_assert_eq!(clock.count_between(after, until), expected.len() as u64);
        let latest = clock.latest_at_or_before(until).filter(|fire| *fire > after);
        prop_assert_eq!(latest, expected.last().copied());
    }
}

fn check_garbage(expr: &str, name: &str, second: i64) {
    let _ = parse_duration(expr);
    let _ = zone(expr);
    let _ = Recurrence::parse(expr, None);
    let Ok(Recurrence::Cron(cron)) = Recurrence::parse(expr, Some(name)) else {
        return;
    };
    let zone = zone(name).unwrap_or(TimeZone::UTC);
    let after = Timestamp::from_second(second).unwrap();
    let clock = CronClock::new(cron, zone, Dst::default());
    let mut last = after;
    for fire in clock.fires_after(after).take(20) {
        assert!(fire > last, "{expr:?}: {fire} is not after {last}");
        assert_eq!(clock.next_after(last), Some(fire));
        last = fire;
    }
    let _ = clock.latest_at_or_before(after);
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn e02_garbage_never_panics(
        expr in prop_oneof![
            "\\PC{0,40}",
            "[0-9*/,LWHh#~?@() -]{1,30}",
            "(([0-9*?HL]|[0-9]{1,2}-[0-9]{2}|MON|jan|[0-9]W|[0-9]#[0-9])[,/~]?[0-9]{0,2} ){5,6}",
        ],
        name in prop_oneof!["\\PC{0,20}", proptest::sample::select(&ZONES[..]).prop_map(str::to_owned)],
        second in prop_oneof![
            Just(Timestamp::MIN.as_second()),
            Just(Timestamp::MAX.as_second()),
            Timestamp::MIN.as_second()..Timestamp::MAX.as_second(),
        ],
    ) {
        check_garbage(&expr, &name, second);
    }
}

/// The instants of one time of day on the dates from `first` to `last`.
fn daily(zone: &TimeZone, first: Date, last: Date, hour: i8, minute: i8) -> Vec<Timestamp> {
    let days = first.series(1.day()).take_while(|day| *day <= last);
    let walls = days.map(|day| day.at(hour, minute, 0, 0));
    let mut all: Vec<_> = walls.flat_map(|wall| brute::instants(zone, Dst::default(), wall)).collect();
    all.dedup();
    all
}

#[test]
fn b05_daily_jobs_fire_once_per_date_in_every_zone_from_1970_to_2035() {
    let (start, end) = (date(1970, 1, 1), date(2035, 12, 31));
    let midnight = |day: Date| day.at(0, 0, 0, 0).to_zoned(TimeZone::UTC).unwrap().timestamp();
    let mut names: Vec<_> = jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
    names.sort();
    names.dedup();
    let mut zones = 0;
    for name in names {
        // The database also lists names that schedules may not use, such as `Factory`.
        let Ok(zone) = zone(&name) else { continue };
        zones += 1;
        for (expr, hour, minute) in [("30 2 * * *", 2, 30), ("0 0 * * *", 0, 0)] {
            let clock = CronClock::new(Cron::parse(expr).unwrap(), zone.clone(), Dst::default());
            // Between changes nothing can differ from a fixed offset; look closely around them.
            for change in zone.following(midnight(start)) {
                let day = zone.to_datetime(change.timestamp()).date();
                if day > end {
                    break;
                }
                let expected = daily(&zone, day - 3.days(), day + 3.days(), hour, minute);
                let walked: Vec<_> = clock.fires_after(expected[0] - 1.second()).take(expected.len()).collect();
                assert_eq!(walked, expected, "{expr} in {name} around {day}");
            }
        }
        // And over all the years no date may be lost or doubled.
        let clock = CronClock::new(Cron::parse("45 3 * * *").unwrap(), zone.clone(), Dst::default());
        let [first, last] = [start, end].map(|day| brute::instants(&zone, Dst::default(), day.at(3, 45, 0, 0))[0]);
        let days = (end - start).get_days();
        assert_eq!(clock.count_between(first, last), u64::from(days.unsigned_abs()), "{name}");
    }
    assert!(zones > 400, "only {zones} zones were found");
}

#[test]
fn b05_counting_a_year_of_seconds_is_exact() {
    let clock = |name| CronClock::new(Cron::parse("* * * * * *").unwrap(), zone(name).unwrap(), Dst::default());
    let (from, to) = ("2024-06-01T00:00:00.25Z".parse().unwrap(), "2025-06-01T00:00:00.75Z".parse().unwrap());
    for name in ZONES {
        assert_eq!(clock(name).count_between(from, to), 365 * 86_400, "{name}");
        assert_eq!(clock(name).count_between(to, from), 0);
    }
    let all = clock("Europe/Berlin").count_between(Timestamp::MIN, Timestamp::MAX);
    let seconds = Timestamp::MAX.as_second() - Timestamp::MIN.as_second();
    assert_eq!(all, seconds.unsigned_abs());
}
