//! What users read: refusals, descriptions, notes and warnings, each with its whole text.

use super::*;

/// Each refusal with its whole message: the text is what the user has to go on.
const REFUSALS: &[(&str, &str)] = &[
    ("@reboot", "@reboot is not a time; a schedule has times only; start such work when the service starts"),
    ("@fortnightly", "unknown word \"@fortnightly\"; use @yearly, @monthly, @weekly, @daily, @hourly or @every 90s"),
    ("@every 5m", "@every is an interval, not a cron expression; give it where an interval is taken, as in @every 90s"),
    ("", "the expression is empty; write five fields: minute hour day-of-month month day-of-week"),
    ("0 22-2 * * *", "hour field, column 3: the range 22-2 runs backwards; split it, as in 22-23,0-2"),
    (
        "0 0 * * FRI-MON",
        "day-of-week field, column 9: the range FRI-MON runs backwards; split it, as in FRI-SAT,SUN-MON",
    ),
    ("0 0 * * FRI-SUN", "day-of-week field, column 9: the range FRI-SUN runs backwards; split it, as in FRI-SAT,SUN"),
    ("/5 * * * *", "minute field, column 1: a step needs something to step through; write */n for every nth value"),
    (
        "MON * * * *",
        "minute field, column 1: \"MON\" is the name of a weekday; weekday names stand in the day-of-week field",
    ),
    (
        "0 0 * 1 JAN",
        "day-of-week field, column 9: \"JAN\" is the name of a month; month names stand in the month field",
    ),
    ("0 0 * * MONDAY", "day-of-week field, column 9: unknown name \"MONDAY\"; days are SUN MON TUE WED THU FRI SAT"),
    ("1,,2 * * * *", "minute field, column 3: an item of the list is empty; remove the extra comma"),
    ("1, * * * *", "minute field, column 3: an item of the list is empty; remove the extra comma"),
    ("*/0 * * * *", "minute field, column 3: a step of 0 never advances; write a step of 1 or more"),
    ("*/ * * * *", "minute field, column 3: the step has no number; write a number behind the slash, as in */5"),
    ("1- * * * *", "minute field, column 3: the range has no end; write both ends, as in 1-5"),
    ("-5 * * * *", "minute field, column 1: the range has no start; write both ends, as in 1-5"),
    ("60 * * * *", "minute field, column 1: 60 is out of range; use 0 to 59"),
    ("0 0 0 * *", "day-of-month field, column 5: 0 is out of range; use 1 to 31"),
    ("0 0 * 13 *", "month field, column 7: 13 is out of range; use 1 to 12 or JAN to DEC"),
    ("0 0 * * 8", "day-of-week field, column 9: 8 is out of range; use 0 to 7 (0 and 7 are Sunday) or SUN to SAT"),
    (
        "0 0 * * L",
        "day-of-week field, column 9: 'L' has no meaning here; L is the last day in the day-of-month field, and 5L the last Friday in the day-of-week field",
    ),
    (
        "0 0 * * 1#6",
        "day-of-week field, column 11: a month has no weekday number 6; use 1 to 5, as in 5#2 for the second Friday",
    ),
    (
        "0 0 1#2 * *",
        "day-of-month field, column 6: '#' has no meaning here; 5#2 is the second Friday, in the day-of-week field",
    ),
    (
        "0 0 * * 1W",
        "day-of-week field, column 10: 'W' has no meaning here; 15W is the weekday nearest the 15th and LW the last one, in the day-of-month field",
    ),
    ("0 0 * é *", "month field, column 7: unexpected 'é'; use 1 to 12 or JAN to DEC"),
    (
        "H * * * *",
        "minute field, column 1: a spread field (H or ~) needs a seed; give a seed, such as the schedule's name, or write the value itself",
    ),
];

#[test]
fn e02_refusals_name_the_field_the_column_and_the_remedy() {
    for (expr, message) in REFUSALS {
        assert_eq!(refused(expr), *message, "{expr:?}");
    }
}

#[test]
fn e02_long_expressions_are_refused_unread() {
    let long = "1,".repeat(5_000_000);
    assert_eq!(*Cron::parse(&long).unwrap_err().problem(), CronProblem::TooLong(10_000_000));
    let huge = refused(&format!("{} * * * *", "9".repeat(1000)));
    assert!(huge.len() < 100, "{huge}");
}

#[test]
fn b05_unknown_zones_are_typed_errors_with_suggestions() {
    for (name, message) in [
        ("", "the time zone is empty; use an IANA name such as Europe/Berlin, or UTC"),
        ("Local", "\"Local\" depends on the machine; name the zone itself, such as Europe/Berlin"),
        (
            "CET-1CEST,M3.5.0,M10.5.0/3",
            "\"CET-1CEST,M3.5.0,M10.5.0/3\" is a POSIX rule; use an IANA name such as Europe/Berlin",
        ),
        ("Berlin", "unknown time zone \"Berlin\"; did you mean Europe/Berlin?"),
        ("America/New York", "unknown time zone \"America/New York\"; did you mean America/New_York?"),
        ("../../etc/passwd", "unknown time zone \"../../etc/passwd\"; use an IANA name such as Europe/Berlin, or UTC"),
        ("UTC\0", "unknown time zone \"UTC\\0\"; did you mean UTC?"),
        ("🕰", "unknown time zone \"🕰\"; use an IANA name such as Europe/Berlin, or UTC"),
    ] {
        assert_eq!(zone(name).unwrap_err().to_string(), message);
    }
    assert_eq!(zone(&"A".repeat(10_000_000)), Err(ZoneError::TooLong(10_000_000)));
    for name in ["UTC", "Etc/GMT+3", "EST5EDT", "Asia/Kolkata", "America/Argentina/Buenos_Aires"] {
        assert_eq!(zone(name).unwrap().iana_name(), Some(name));
    }
}

#[test]
fn b05_dst_words_round_trip() {
    for gap in [DstGap::Next, DstGap::Skip] {
        assert_eq!(gap.as_str().parse(), Ok(gap));
        assert_eq!(serde_json::to_value(gap).unwrap(), gap.as_str());
    }
    for overlap in [DstOverlap::First, DstOverlap::Both, DstOverlap::Second] {
        assert_eq!(overlap.as_str().parse(), Ok(overlap));
        assert_eq!(serde_json::to_value(overlap).unwrap(), overlap.as_str());
    }
    let error = "never".parse::<DstGap>().unwrap_err().to_string();
    assert_eq!(error, "unknown dst_gap \"never\"; use next or skip");
    assert_eq!(serde_json::from_str::<Dst>("{\"gap\":\"skip\"}").unwrap().gap, DstGap::Skip);
}

#[test]
fn b05_descriptions_say_or_and_and_as_the_rule_means_them() {
    for (expr, text) in [
        ("0 8 * * 1-5", "At 08:00, Monday to Friday"),
        ("0 8,20 * * *", "At 08:00 and 20:00, every day"),
        ("*/15 9-17 * * MON,WED", "Every 15 minutes, from 09:00 to 17:59, Monday and Wednesday"),
        ("* * * * *", "Every minute, every day"),
        ("30 * * * *", "At minute 30 of every hour, every day"),
        ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour, every day"),
        ("0 */2 * * *", "At minute 0, in every 2nd hour from 0, every day"),
        ("0 0 13 * 5", "At 00:00, on the 13th of the month or on Friday"),
        (
            "0 0 */2 * 1",
            "At 00:00, on the 1st, 3rd, 5th, 7th, 9th, 11th, 13th, 15th, 17th, 19th, 21st, 23rd, \
             25th, 27th, 29th and 31st of the month and only if it is Monday",
        ),
        ("0 0 * * 6,0", "At 00:00, Saturday and Sunday"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        (
            "0 0 15W,LW 3-5 *",
            "At 00:00, on the weekday nearest the 15th and the last weekday of the month, in March to May",
        ),
        ("0 0 * * 5L", "At 00:00, the last Friday of the month"),
        ("0 0 * * 2#1", "At 00:00, the first Tuesday of the month"),
        ("@yearly", "At 00:00, on the 1st of the month, in January"),
        ("*/10 * * * * *", "Every 10 seconds, every day"),
        ("15 30 2 * * *", "At 02:30:15, every day"),
        ("* 5 * * * *", "Every second of minute 5 of every hour, every day"),
    ] {
        let cron = Cron::parse(expr).unwrap();
        assert_eq!(describe(&cron, "UTC"), format!("{text}, UTC"), "{expr}");
    }
}

#[test]
fn b05_notes_name_the_dates_on_which_the_choice_matters() {
    let notes = |expr, name, gap, overlap| -> Vec<String> {
        let clock = clock_with(expr, name, gap, overlap);
        let notes = dst_notes(&clock, at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z"));
        notes.into_iter().map(|note| note.text).collect()
    };
    let berlin = "Europe/Berlin";
    assert_eq!(
        notes("30 2 * * *", berlin, DstGap::Next, DstOverlap::First),
        [
            "02:30 does not exist on 2026-03-29; it fires once, at 03:00",
            "02:30 comes twice on 2026-10-25; it fires once, the first time"
        ]
    );
    assert_eq!(
        notes("15,45 2 * * *", berlin, DstGap::Skip, DstOverlap::Both),
        [
            "02:15 and 02:45 do not exist on 2026-03-29; they are skipped",
            "02:15 and 02:45 come twice on 2026-10-25; they fire both times"
        ]
    );
    assert_eq!(
        notes("*/10 2 * 3 *", berlin, DstGap::Next, DstOverlap::First),
        [
            "02:00, 02:10, 02:20 and 3 more do not exist on 2026-03-29; they are skipped, since a time field starts with *"
        ]
    );
    assert!(notes("0 8 * * *", berlin, DstGap::Next, DstOverlap::First).is_empty());
    assert!(notes("*/5 * * * *", berlin, DstGap::Next, DstOverlap::First).is_empty());
    let apia = dst_notes(&clock("0 12 * * *", "Pacific/Apia"), at("2011-12-01T00:00:00Z"), at("2012-01-01T00:00:00Z"));
    assert_eq!(apia[0].text, "12:00 does not exist on 2011-12-30; it fires once, at 00:00 on 2011-12-31");
    assert_eq!(apia[0].change, DstChange::Gap);
}

#[test]
fn b05_warnings_point_at_what_may_not_be_meant() {
    let warnings = |expr, name| -> Vec<String> {
        let found = lint(&clock(expr, name), at("2026-01-01T00:00:00Z"));
        found.iter().map(ToString::to_string).collect()
    };
    assert!(warnings("0 8 * * 1-5", "UTC").is_empty());
    assert!(warnings("*/15 * * * *", "UTC").is_empty());
    assert!(warnings("@weekly", "UTC").is_empty());
    assert_eq!(
        warnings("*/7 * * * *", "UTC"),
        ["*/7 in the minute field is uneven: 7 does not divide 60, so the last step is shorter"]
    );
    assert_eq!(warnings("*/90 * * * *", "UTC"), ["*/90 in the minute field leaves its first value alone"]);
    assert_eq!(
        warnings("0 0 13 * 5", "UTC"),
        ["day-of-month and day-of-week are both given: it fires when either matches"]
    );
    assert_eq!(
        warnings("0 0 */2 * 1", "UTC"),
        [
            "*/2 in the day-of-month field starts again on the 1st of every month",
            "day-of-month and day-of-week are both given and one starts with *: it fires only when both match"
        ]
    );
    assert_eq!(
        warnings("* 8 * * *", "UTC"),
        ["it fires every minute of the hours given; for once an hour give the minute, as in 0"]
    );
    assert_eq!(warnings("*/5 2 8-14 3 */7", "America/New_York")[0], "no further fire within 41 years");
}

#[test]
fn b05_every_field_has_a_meaning_of_its_own() {
    let meanings = |expr| -> Vec<String> {
        let cron = Cron::parse(expr).unwrap();
        field_meanings(&cron).into_iter().map(|m| format!("{} {}: {}", m.field, m.text, m.meaning)).collect()
    };
    assert_eq!(
        meanings("@daily"),
        [
            "minute 0: 0",
            "hour 0: 0",
            "day-of-month *: every day of the month",
            "month *: every month",
            "day-of-week *: every day of the week"
        ]
    );
    assert_eq!(
        meanings("*/20 0,30 9-17/2 1,L JAN-MAR,JUN 5#2,SUN"),
        [
            "second */20: every 20 seconds, from 0",
            "minute 0,30: every 30 minutes, from 0",
            "hour 9-17/2: 9, 11, 13, 15 and 17",
            "day-of-month 1,L: the 1st of the month and the last day of the month",
            "month JAN-MAR,JUN: January to March and June",
            "day-of-week 5#2,SUN: Sunday and the second Friday of the month"
        ]
    );
}
