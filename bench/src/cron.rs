//! How long the next fire takes to find, against plain zone arithmetic in the same run.
//!
//! The reference walks as a straightforward program would: add a minute to a zoned time and look at
//! its fields. One step of that walk is the unit; a fire that costs a few units is as good as free.

use crate::load::Outcome;
use crate::report::{self, Bar, Bars, Cell, Goal, Group, Mark, Plot, Sheet, Survey, Table, Tone};
use jiff::{Timestamp, ToSpan};
use punctual_core::cron::{Cron, CronClock, Dst, zone};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 9;

/// How much is asked of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What almost every schedule says.
    Ordinary,
    /// What few say.
    Rare,
}

/// Expression, zone, what the case is about.
const CASES: [(&str, &str, &str, Kind); 12] = [
    ("* * * * *", "UTC", "every minute, no zone rules", Kind::Ordinary),
    ("*/15 * * * *", "Europe/Berlin", "ordinary wildcard", Kind::Ordinary),
    ("0 8 * * 1-5", "Europe/Berlin", "ordinary fixed time", Kind::Ordinary),
    ("0 8 * * 1-5", "Asia/Kolkata", "fixed time, no clock changes", Kind::Ordinary),
    ("30 2 * * *", "America/New_York", "fixed time in the hour that changes", Kind::Rare),
    ("*/10 * * * * *", "Australia/Lord_Howe", "seconds, half-hour changes", Kind::Rare),
    ("0 0 1 1 *", "America/Santiago", "yearly", Kind::Rare),
    ("0 0 LW * *", "Europe/Berlin", "last weekday of the month", Kind::Rare),
    ("0 0 29 2 */7", "UTC", "leap day on a Sunday: up to 40 years", Kind::Rare),
    ("0 0 29 2 */7", "Africa/Casablanca", "the same, through many clock changes", Kind::Rare),
    ("*/5 2 8-14 3 */7", "America/New_York", "never: 41 years searched", Kind::Rare),
    ("0-59 0-59 2 8-14 3 */7", "America/New_York", "a gap full of seconds", Kind::Rare),
];

/// Measures the section `cron`: nanoseconds per call, and as a ratio to the reference step.
pub fn run() -> Outcome<()> {
    let survey = Survey::begin()?;
    let step_ns = median(|| reference_step("Europe/Berlin"));
    let mut table = Table::new("", ["expression", "zone", "what", "ns", "ratio"]);
    let mut line = |expr: &str, zone: &str, about: &str, ns: f64| {
        let words = [Cell::words(format!("`{expr}`")), Cell::words(zone), Cell::words(about)];
        table.row(words.into_iter().chain([Cell::number(ns, 0), Cell::number(ns / step_ns, 2)]));
    };
    let (mut ordinary, mut worst, mut bars) = (0.0_f64, 0.0_f64, Vec::new());
    for (expr, name, about, kind) in CASES {
        let ns = median(|| next(expr, name));
        line(expr, name, about, ns);
        worst = worst.max(ns);
        if kind == Kind::Ordinary {
            ordinary = ordinary.max(ns);
        }
        bars.push(Bar::new(format!("{expr} ({name})"), Tone::Ours, ns, None));
    }
    line("* * * * * *", "Europe/Berlin", "count a year", median(count_a_year));
    line("0 8 * * 1-5", "Europe/Berlin", "latest fire", median(latest));
    line("0 8 * * 1-5", "", "parse", median(parse));
    let mut sheet = Sheet::new("cron", "Cron", "cron");
    sheet.say(format!(
        "The next fire of an expression, from starts spread over two years; medians of {ROUNDS} rounds. The reference is \
         one minute of zoned arithmetic, {step_ns:.0} ns: a straightforward program needs one for each minute it looks at."
    ));
    sheet.answer(Goal::CronOrdinary, "the slowest of four", ordinary / 1000.0);
    sheet.answer(Goal::CronWorst, "", worst / 1000.0);
    sheet.tables.push(table);
    bars.insert(0, Bar::new("one minute of zoned arithmetic", Tone::Raw, step_ns, None));
    sheet.plots.push(Plot::Bars(Bars {
        title: "Finding the next fire".to_owned(),
        unit: "ns".to_owned(),
        groups: vec![Group { name: String::new(), bars }],
        marks: vec![Mark::new(1_000.0, "goal, ordinary: 1 µs"), Mark::new(1e6, "goal, worst: 1 ms")],
        ..Bars::default()
    }));
    report::keep(sheet, survey)
}

fn median(mut round: impl FnMut() -> f64) -> f64 {
    crate::figures::median(&(0..ROUNDS).map(|_| round()).collect::<Vec<_>>())
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
