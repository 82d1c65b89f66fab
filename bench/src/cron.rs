//! How long the next fire takes to find, against plain zone arithmetic in the same run.
//!
//! The reference walks as a straightforward program would: add a minute to a zoned time and look at
//! its fields. One step of that walk is the unit; a fire that costs a few units is as good as free.

use std::hint::black_box;
use std::time::Instant;

use jiff::{Timestamp, ToSpan};
use punctual_core::cron::{Cron, CronClock, Dst, zone};

const ROUNDS: usize = 9;

/// Expression, zone and what the case is about.
const CASES: [(&str, &str, &str); 12] = [
    ("* * * * *", "UTC", "every minute, no zone rules"),
    ("*/15 * * * *", "Europe/Berlin", "ordinary wildcard"),
    ("0 8 * * 1-5", "Europe/Berlin", "ordinary fixed time"),
    ("0 8 * * 1-5", "Asia/Kolkata", "fixed time, no clock changes"),
    ("30 2 * * *", "America/New_York", "fixed time in the hour that changes"),
    ("*/10 * * * * *", "Australia/Lord_Howe", "seconds, half-hour changes"),
    ("0 0 1 1 *", "America/Santiago", "yearly"),
    ("0 0 LW * *", "Europe/Berlin", "last weekday of the month"),
    ("0 0 29 2 */7", "UTC", "leap day on a Sunday: up to 40 years"),
    ("0 0 29 2 */7", "Africa/Casablanca", "the same, through many clock changes"),
    ("*/5 2 8-14 3 */7", "America/New_York", "never: 41 years searched"),
    ("0-59 0-59 2 8-14 3 */7", "America/New_York", "a gap full of seconds"),
];

/// Prints one line per case: nanoseconds per call, and as a ratio to the reference step.
pub fn run() {
    let step_ns = median(|| reference_step("Europe/Berlin"));
    println!("reference: one minute of zoned arithmetic {step_ns:.0} ns; medians of {ROUNDS} rounds");
    println!("{:>10}  {:>8}  expression", "ns/next", "ratio");
    for (expr, name, about) in CASES {
        let ns = median(|| next(expr, name));
        println!("{ns:>10.0}  {:>8.2}  {expr:<22} {name:<20} {about}", ns / step_ns);
    }
    let ns = median(count_a_year);
    println!("{ns:>10.0}  {:>8.2}  count a year of * * * * * * (Europe/Berlin)", ns / step_ns);
    let ns = median(latest);
    println!("{ns:>10.0}  {:>8.2}  latest fire of 0 8 * * 1-5 (Europe/Berlin)", ns / step_ns);
    let ns = median(parse);
    println!("{ns:>10.0}  {:>8.2}  parse 0 8 * * 1-5", ns / step_ns);
}

fn median(mut round: impl FnMut() -> f64) -> f64 {
    let mut all: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    all.sort_by(f64::total_cmp);
    all[ROUNDS / 2]
}

/// Nanoseconds per call over a fixed slice of time, so that slow cases end too.
fn per_call(mut call: impl FnMut(u64)) -> f64 {
    const SLICE_MS: u128 = 20;
    let started = Instant::now();
    let mut calls = 0_u64;
    while started.elapsed().as_millis() < SLICE_MS {
        // Reading the clock costs as much as some calls; a batch hides it.
        for _ in 0..16 {
            call(calls);
            calls += 1;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a 20 ms slice is far below 2^52")]
    let ns = started.elapsed().as_nanos() as f64 / calls as f64;
    ns
}

/// Start times spread over two years, so that every season is met.
fn start(call: u64) -> Timestamp {
    let second = 1_767_225_600 + call.wrapping_mul(7_919_333) % 63_072_000;
    Timestamp::from_second(second.cast_signed()).expect("in range")
}

fn clock(expr: &str, name: &str) -> CronClock {
    let cron = Cron::parse(expr).expect("a valid expression");
    CronClock::new(cron, zone(name).expect("a known zone"), Dst::default())
}

fn next(expr: &str, name: &str) -> f64 {
    let clock = clock(expr, name);
    per_call(|call| {
        black_box(clock.next_after(black_box(start(call))));
    })
}

fn latest() -> f64 {
    let clock = clock("0 8 * * 1-5", "Europe/Berlin");
    per_call(|call| {
        black_box(clock.latest_at_or_before(black_box(start(call))));
    })
}

fn count_a_year() -> f64 {
    let clock = clock("* * * * * *", "Europe/Berlin");
    per_call(|call| {
        let from = black_box(start(call));
        black_box(clock.count_between(from, from + (365 * 24).hours()));
    })
}

fn parse() -> f64 {
    per_call(|_| {
        black_box(Cron::parse(black_box("0 8 * * 1-5"))).expect("valid");
    })
}

fn reference_step(name: &str) -> f64 {
    let zone = zone(name).expect("a known zone");
    let mut at = start(0).to_zoned(zone);
    per_call(|_| {
        at = at.checked_add(1.minute()).expect("in range");
        black_box((at.minute(), at.hour(), at.day(), at.month(), at.weekday()));
    })
}
