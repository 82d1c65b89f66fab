//! Any text, zone and time: no panic, and fires that strictly increase.

#![no_main]

use jiff::Timestamp;
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;
use punctual_core::cron::{
    CronClock, Dst, DstGap, DstOverlap, Recurrence, describe, dst_notes, field_meanings, lint, zone,
};
use punctual_core::duration::{format_duration, parse_duration};

#[derive(arbitrary::Arbitrary, Debug)]
struct Input<'a> {
    expr: &'a str,
    zone: &'a str,
    known_zone: u8,
    seed: Option<&'a str>,
    second: i64,
    skip: bool,
    overlap: u8,
}

const ZONES: [&str; 8] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "Asia/Kolkata",
];

fuzz_target!(|input: Input<'_>| {
    if let Ok(duration) = parse_duration(input.expr) {
        assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }
    // Unknown names are slow (they look for what was meant), so they are tried now and then only.
    let index = usize::from(input.known_zone) % 32;
    let name = if index == 31 {
        input.zone
    } else {
        ZONES[index % ZONES.len()]
    };
    let zone = zone(name).unwrap_or(TimeZone::UTC);
    let Ok(Recurrence::Cron(cron)) = Recurrence::parse(input.expr, input.seed) else {
        return;
    };
    let (least, most) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    let after = Timestamp::from_second(least + input.second.rem_euclid(most - least)).unwrap();
    let dst = Dst {
        gap: if input.skip {
            DstGap::Skip
        } else {
            DstGap::Next
        },
        overlap: [DstOverlap::First, DstOverlap::Both, DstOverlap::Second]
            [usize::from(input.overlap % 3)],
    };
    let clock = CronClock::new(cron, zone, dst);
    let _ = (
        describe(clock.cron(), name),
        field_meanings(clock.cron()),
        lint(&clock, after),
    );

    let mut last = after;
    let mut count = 0;
    for fire in clock.fires_after(after).take(8) {
        assert!(fire > last);
        assert_eq!(clock.next_after(last), Some(fire));
        assert_eq!(clock.latest_at_or_before(fire), Some(fire));
        last = fire;
        count += 1;
    }
    assert_eq!(clock.count_between(after, last), count);
    assert!(
        clock
            .latest_at_or_before(after)
            .is_none_or(|fire| fire <= after)
    );
    let _ = dst_notes(&clock, after, last);
});
