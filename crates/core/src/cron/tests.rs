//! The rules of time as facts: every row of the rule table with its exact instants.

mod brute;
mod properties;
mod texts;

use super::*;
use jiff::Timestamp;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn clock_with(expr: &str, name: &str, gap: DstGap, overlap: DstOverlap) -> CronClock {
    CronClock::new(Cron::parse(expr).unwrap(), zone(name).unwrap(), Dst { gap, overlap })
}

fn clock(expr: &str, name: &str) -> CronClock {
    clock_with(expr, name, DstGap::default(), DstOverlap::default())
}

/// The fires after `after` up to and including `until`, each asked for on its own.
fn fires(clock: &CronClock, after: &str, until: &str) -> Vec<String> {
    let until = at(until);
    let mut found = Vec::new();
    let mut last = at(after);
    while let Some(next) = clock.next_after(last).filter(|next| *next <= until) {
        assert!(next > last, "{next} is not after {last}");
        found.push(next.to_string());
        last = next;
    }
    found
}

fn first(expr: &str, name: &str, after: &str, count: usize) -> Vec<String> {
    clock(expr, name).fires_after(at(after)).take(count).map(|fire| fire.to_string()).collect()
}

fn refused(expr: &str) -> String {
    Cron::parse(expr).expect_err(expr).to_string()
}

#[test]
fn b05_next_is_strictly_after_and_a_whole_second() {
    let quarter = clock("*/15 * * * *", "UTC");
    assert_eq!(quarter.next_after(at("2025-01-01T10:15:00Z")), Some(at("2025-01-01T10:30:00Z")));
    let just_before = at("2025-01-01T10:14:59.999999999Z");
    assert_eq!(quarter.next_after(just_before), Some(at("2025-01-01T10:15:00Z")));
    let every_second = clock("* * * * * *", "UTC");
    let fire = every_second.next_after(at("1969-12-31T23:59:58.5Z"));
    assert_eq!(fire, Some(at("1969-12-31T23:59:59Z")), "halves before 1970 round down as well");
}

#[test]
fn b05_gap_fixed_fires_once_at_the_end_of_the_gap() {
    let twice = clock("15,45 2 * * *", "America/New_York");
    assert_eq!(
        fires(&twice, "2025-03-09T00:00:00Z", "2025-03-10T06:30:00Z"),
        ["2025-03-09T07:00:00Z", "2025-03-10T06:15:00Z"]
    );
}

#[test]
fn b05_gap_end_that_is_named_itself_is_one_fire() {
    let clock = clock("30 2,3 * * *", "America/New_York");
    let collapsed = clock_with("0,30 2-3 * * *", "America/New_York", DstGap::Next, DstOverlap::First);
    assert_eq!(
        fires(&clock, "2025-03-09T00:00:00Z", "2025-03-09T12:00:00Z"),
        ["2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"]
    );
    assert_eq!(
        fires(&collapsed, "2025-03-09T00:00:00Z", "2025-03-09T12:00:00Z"),
        ["2025-03-09T07:00:00Z", "2025-03-09T07:30:00Z"]
    );
    assert_eq!(collapsed.count_between(at("2025-03-09T00:00:00Z"), at("2025-03-09T12:00:00Z")), 2);
}

#[test]
fn b05_gap_wildcard_is_skipped_and_nothing_made_up() {
    let (from, to) = ("2025-03-09T05:00:00Z", "2025-03-09T22:00:00Z");
    assert!(fires(&clock("*/30 2 * * *", "America/New_York"), from, to).is_empty());
    assert_eq!(
        fires(&clock("30 * * * *", "America/New_York"), "2025-03-09T06:00:00Z", "2025-03-09T08:00:00Z"),
        ["2025-03-09T06:30:00Z", "2025-03-09T07:30:00Z"]
    );
}

#[test]
fn b05_gap_skip_drops_the_fixed_time() {
    let skip = clock_with("30 2 * * *", "America/New_York", DstGap::Skip, DstOverlap::First);
    assert_eq!(fires(&skip, "2025-03-08T12:00:00Z", "2025-03-10T12:00:00Z"), ["2025-03-10T06:30:00Z"]);
}

#[test]
fn b05_overlap_fixed_fires_once_in_the_first_pass() {
    let daily = clock("30 1 * * *", "America/New_York");
    assert_eq!(
        fires(&daily, "2025-11-02T00:00:00Z", "2025-11-03T12:00:00Z"),
        ["2025-11-02T05:30:00Z", "2025-11-03T06:30:00Z"]
    );
    // Asked from the second pass, at 01:10 shown for the second time.
    assert_eq!(daily.next_after(at("2025-11-02T06:10:00Z")), Some(at("2025-11-03T06:30:00Z")));
}

#[test]
fn b05_overlap_wildcard_fires_in_both_passes() {
    assert_eq!(
        fires(&clock("*/30 1 * * *", "America/New_York"), "2025-11-02T00:00:00Z", "2025-11-02T12:00:00Z"),
        ["2025-11-02T05:00:00Z", "2025-11-02T05:30:00Z", "2025-11-02T06:00:00Z", "2025-11-02T06:30:00Z"]
    );
}

#[test]
fn b05_overlap_both_and_second_move_the_fixed_time() {
    let (from, to) = ("2025-11-02T00:00:00Z", "2025-11-03T12:00:00Z");
    let both = clock_with("30 1 * * *", "America/New_York", DstGap::Next, DstOverlap::Both);
    assert_eq!(fires(&both, from, to), ["2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2025-11-03T06:30:00Z"]);
    let second = clock_with("30 1 * * *", "America/New_York", DstGap::Next, DstOverlap::Second);
    assert_eq!(fires(&second, from, to), ["2025-11-02T06:30:00Z", "2025-11-03T06:30:00Z"]);
    // 01:45 of the first pass is behind 01:30, and still the second 01:30 is to come.
    let asked = second.next_after(at("2025-11-02T05:45:00Z"));
    assert_eq!(asked, Some(at("2025-11-02T06:30:00Z")));
}

#[test]
fn b05_half_hour_changes_follow_the_same_rule() {
    assert_eq!(first("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T00:00:00Z", 1), ["2024-10-05T15:30:00Z"]);
}

#[test]
fn b05_a_missing_day_fires_at_the_end_of_the_gap() {
    assert_eq!(
        first("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3),
        ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]
    );
}

#[test]
fn b05_midnight_changes_follow_the_same_rule() {
    // Cairo's clocks went from 00:00 to 01:00 on 2024-04-26.
    assert_eq!(
        first("0 0 * * *", "Africa/Cairo", "2024-04-25T00:00:00Z", 2),
        ["2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"]
    );
    // Santiago shows 23:00 to 24:00 of 2024-04-06 twice.
    assert_eq!(
        first("30 23 * * *", "America/Santiago", "2024-04-06T12:00:00Z", 2),
        ["2024-04-07T02:30:00Z", "2024-04-08T03:30:00Z"]
    );
}

#[test]
fn d05_day_fields_are_or_unless_one_starts_with_a_star() {
    assert_eq!(
        first("0 0 13 * 5", "UTC", "2025-06-01T00:00:00Z", 4),
        ["2025-06-06T00:00:00Z", "2025-06-13T00:00:00Z", "2025-06-20T00:00:00Z", "2025-06-27T00:00:00Z"]
    );
    assert_eq!(first("0 0 13 * 5", "UTC", "2025-05-09T00:00:00Z", 1), ["2025-05-13T00:00:00Z"]);
    // Mondays on odd days: 2025-06-02 is a Monday, but the 2nd.
    assert_eq!(
        first("0 0 */2 * 1", "UTC", "2025-06-01T00:00:00Z", 3),
        ["2025-06-09T00:00:00Z", "2025-06-23T00:00:00Z", "2025-07-07T00:00:00Z"]
    );
    assert_eq!(
        first("0 0 13 * */5", "UTC", "2025-06-01T00:00:00Z", 1),
        ["2025-06-13T00:00:00Z"],
        "Sunday or Friday, and the 13th"
    );
}

#[test]
fn d05_zero_and_seven_are_sunday() {
    assert_eq!(
        first("0 0 * * 5-7", "UTC", "2025-06-02T00:00:00Z", 4),
        ["2025-06-06T00:00:00Z", "2025-06-07T00:00:00Z", "2025-06-08T00:00:00Z", "2025-06-13T00:00:00Z"]
    );
    for sunday in ["0", "7", "SUN", "sun", "0,7"] {
        let expr = format!("0 0 * * {sunday}");
        assert_eq!(first(&expr, "UTC", "2025-06-02T00:00:00Z", 1), ["2025-06-08T00:00:00Z"]);
    }
}

#[test]
fn d05_a_start_with_a_step_runs_to_the_end_of_the_field() {
    assert_eq!(
        first("50/3 0 * jAn Mon-fRI", "UTC", "2025-01-01T00:00:00Z", 4),
        first("50-59/3 0 * 1 1-5", "UTC", "2025-01-01T00:00:00Z", 4)
    );
    assert_eq!(
        first("0 0 * * 5/1", "UTC", "2025-06-02T00:00:00Z", 4),
        first("0 0 * * 5-7", "UTC", "2025-06-02T00:00:00Z", 4)
    );
}

#[test]
fn d05_last_day_of_month() {
    assert_eq!(
        first("0 0 L * *", "UTC", "2023-11-30T00:00:00Z", 3),
        ["2023-12-31T00:00:00Z", "2024-01-31T00:00:00Z", "2024-02-29T00:00:00Z"]
    );
}

#[test]
fn d05_last_weekday_nearest_weekday_and_nth_weekday() {
    // 2025-08-31 is a Sunday, 2025-05-31 a Saturday.
    assert_eq!(
        first("0 0 LW 5,8 *", "UTC", "2025-05-01T00:00:00Z", 2),
        ["2025-05-30T00:00:00Z", "2025-08-29T00:00:00Z"]
    );
    // 2025-06-15 is a Sunday; 2025-11-15 a Saturday.
    assert_eq!(
        first("0 0 15W 6,11 *", "UTC", "2025-06-01T00:00:00Z", 2),
        ["2025-06-16T00:00:00Z", "2025-11-14T00:00:00Z"]
    );
    // The nearest weekday never leaves the month: 2025-02-01 and 2025-03-01 are Saturdays.
    assert_eq!(
        first("0 0 1W 2,3 *", "UTC", "2025-01-15T00:00:00Z", 2),
        ["2025-02-03T00:00:00Z", "2025-03-03T00:00:00Z"]
    );
    assert_eq!(first("0 0 31W 8 *", "UTC", "2025-01-15T00:00:00Z", 1), ["2025-08-29T00:00:00Z"]);
    assert_eq!(first("0 0 * * 5L", "UTC", "2025-06-01T00:00:00Z", 2), ["2025-06-27T00:00:00Z", "2025-07-25T00:00:00Z"]);
    assert_eq!(first("0 0 * * 7L", "UTC", "2025-06-01T00:00:00Z", 1), ["2025-06-29T00:00:00Z"]);
    assert_eq!(first("0 0 * * FRIL", "UTC", "2025-06-01T00:00:00Z", 1), ["2025-06-27T00:00:00Z"]);
    assert_eq!(
        first("0 0 * * 5#2", "UTC", "2025-06-01T00:00:00Z", 2),
        ["2025-06-13T00:00:00Z", "2025-07-11T00:00:00Z"]
    );
    assert_eq!(
        first("0 0 * * mon#5", "UTC", "2025-06-01T00:00:00Z", 2),
        ["2025-06-30T00:00:00Z", "2025-09-29T00:00:00Z"]
    );
    assert_eq!(
        first("0 0 1,L * 3#3", "UTC", "2025-06-01T00:00:00Z", 3),
        ["2025-06-18T00:00:00Z", "2025-06-30T00:00:00Z", "2025-07-01T00:00:00Z"],
        "marked days take part in the or-rule"
    );
}

#[test]
fn d05_leap_day_waits_for_the_next_leap_year() {
    assert_eq!(first("0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
    // The longest wait: 40 years for a leap day on a given weekday, across 2100.
    assert_eq!(first("0 0 29 2 */7", "UTC", "2088-02-29T00:00:00Z", 1), ["2128-02-29T00:00:00Z"]);
}

#[test]
fn d05_impossible_dates_are_refused() {
    assert_eq!(
        refused("0 0 30 2 *"),
        "day-of-month field, column 5: no such date exists in any year; choose a day that one of \
         the months has"
    );
    for expr in ["0 0 31 4,6,9,11 *", "0 0 31 2 *", "0 0 30W 2 *", "0 0 */31 * 2#5"] {
        assert_eq!(*Cron::parse(expr).unwrap_err().problem(), CronProblem::ImpossibleDate, "{expr}");
    }
    // The or-rule makes it Mondays in February.
    assert_eq!(first("0 0 30 2 1", "UTC", "2025-01-01T00:00:00Z", 1), ["2025-02-03T00:00:00Z"]);
}

#[test]
fn b05_never_in_practice_is_no_further_fire() {
    let never = clock("*/5 2 8-14 3 */7", "America/New_York");
    assert_eq!(never.next_after(at("2025-01-01T00:00:00Z")), None);
    assert_eq!(never.count_between(at("2008-01-01T00:00:00Z"), at("2060-01-01T00:00:00Z")), 0);
    assert_eq!(clock("* * * * *", "UTC").next_after(Timestamp::MAX), None);
    assert_eq!(clock("0 0 1 1 *", "Asia/Tokyo").next_after(at("9999-06-01T00:00:00Z")), None);
}

#[test]
fn d05_six_fields_have_seconds_first() {
    let (from, to) = ("2025-03-07T00:00:00Z", "2025-03-12T00:00:00Z");
    assert_eq!(
        fires(&clock("0 30 2 * * *", "America/New_York"), from, to),
        fires(&clock("30 2 * * *", "America/New_York"), from, to)
    );
    assert_eq!(
        first("10/25 0 0 ? * ?", "UTC", "2025-01-01T00:00:00Z", 3),
        ["2025-01-01T00:00:10Z", "2025-01-01T00:00:35Z", "2025-01-02T00:00:10Z"]
    );
    assert_eq!(first("0 0 ? * MON", "UTC", "2025-06-01T00:00:00Z", 1), ["2025-06-02T00:00:00Z"]);
    assert!(
        refused("0 0 0 1 1 * 2025")
            .contains("has 7 fields; write five fields, or six with seconds first; there is no year field")
    );
    assert!(refused("0 0 * *").contains("has 4 fields; write five fields"));
    assert!(refused("0").contains("has 1 field;"));
}

#[test]
fn d05_words_stand_for_expressions() {
    for (word, expr) in [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ] {
        let (word, expr) = (Cron::parse(word).unwrap(), Cron::parse(expr).unwrap());
        assert_eq!(word.calendar, expr.calendar);
        assert_eq!(word.is_fixed_time(), expr.is_fixed_time());
    }
    assert_eq!(first("@weekly", "UTC", "2025-06-02T00:00:00Z", 1), ["2025-06-08T00:00:00Z"]);
    assert!(Cron::parse("@daily").unwrap().is_fixed_time());
    assert!(!Cron::parse("@hourly").unwrap().is_fixed_time());
    assert_eq!(Cron::parse(" @daily\n").unwrap().expression(), "@daily");
}

#[test]
fn d05_every_is_elapsed_time_from_the_previous_slot() {
    let every = Recurrence::parse("@every 1h30m", None).unwrap();
    let zone = zone("America/New_York").unwrap();
    let first = every.next_after(at("2025-03-09T06:00:00Z"), &zone, Dst::default()).unwrap();
    assert_eq!(first, at("2025-03-09T07:30:00Z"));
    assert_eq!(every.next_after(first, &zone, Dst::default()), Some(at("2025-03-09T09:00:00Z")));
    assert_eq!(every.to_string(), "@every 1h30m");
    assert!(Recurrence::parse("@every 90s", None).is_ok());
    for (expr, message) in [
        ("@every", "@every: the duration is empty; write one such as 90s or 1h30m"),
        ("@every 500ms", "@every: 500ms is not whole seconds; use 1s or more"),
        ("@every -5m", "@every: a duration has no sign; write it as 90s or 1h30m"),
        ("@every 0s", "@every: the duration is zero; write 1ms or more"),
    ] {
        assert_eq!(Recurrence::parse(expr, None).unwrap_err().to_string(), message);
    }
    assert_eq!(every.next_after(Timestamp::MAX, &zone, Dst::default()), None);
}

#[test]
fn d05_spread_values_are_fixed_by_the_seed_forever() {
    let pinned = |expr: &str, seed: &str| {
        let clock = CronClock::new(Cron::parse_seeded(expr, seed).unwrap(), jiff::tz::TimeZone::UTC, Dst::default());
        clock.next_after(at("2025-01-01T00:00:00Z")).unwrap().to_string()
    };
    // Stored schedules rely on these values: if this fails, the hash changed, and it must not.
    assert_eq!(pinned("H H * * *", "backup"), "2025-01-01T08:07:00Z");
    assert_eq!(pinned("H H * * *", "report"), "2025-01-01T15:25:00Z");
    assert_eq!(pinned("~ 1~4 ~ * *", "backup"), "2025-01-12T01:07:00Z");
}

#[test]
fn d05_spread_stays_in_its_bounds() {
    for seed in 0..200 {
        let seed = seed.to_string();
        let cron = Cron::parse_seeded("H(10-20) 1~4 H H *", &seed).unwrap();
        let one = |bits: u64, range: std::ops::RangeInclusive<u32>| {
            assert_eq!(bits.count_ones(), 1);
            assert!(range.contains(&bits.trailing_zeros()));
        };
        one(cron.calendar.time.minutes, 10..=20);
        one(cron.calendar.time.hours, 1..=4);
        one(cron.calendar.days.of_month.into(), 1..=28);
        one(cron.calendar.months.into(), 1..=12);
        assert!(cron.is_fixed_time());
        let stepped = Cron::parse_seeded("H/15 * * * *", &seed).unwrap();
        assert_eq!(stepped.calendar.time.minutes.count_ones(), 4);
        assert!(stepped.calendar.time.minutes.trailing_zeros() < 15);
    }
    assert!(Cron::parse_seeded("H(20-10) * * * *", "x").is_err());
    assert!(Cron::parse_seeded("4~1 * * * *", "x").is_err());
}
