//! What growth costs: a history, waiting jobs, schedules, and a transaction that pins the oldest snapshot.
//!
//! Two stores of the same kind take turns, batch by batch: one stays small, the other is filled more and more. It is
//! filled by SQL, because making ten million runs one by one is not what is measured.

mod pinned;
mod side;

use crate::figures::{median, middle_half};
use crate::load::{Outcome, each};
use crate::report::{self, Axis, Cell, Goal, Line, Lines, Mark, Plot, Sheet, Survey, Table, Tone, spelled};
use punctual_testkit::postgres::PrivateServer;
use side::{Place, Side};

/// Batches on each side at each size.
const TURNS: usize = 40;
/// The least that a store with jobs or schedules holds.
const FEW: i64 = 1_000;
/// As far as SQLite's history goes: nobody waits for more, and the line is flat.
const SQLITE_HISTORY: i64 = 1_000_000;

/// What grows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Growing {
    History,
    Depth,
    Schedules,
}

impl Growing {
    const fn words(self) -> &'static str {
        match self {
            Self::History => "finished runs",
            Self::Depth => "waiting jobs",
            Self::Schedules => "schedules",
        }
    }

    /// What is done while it grows.
    const fn work(self) -> &'static str {
        match self {
            Self::History | Self::Depth => "claim + finish, batches of 500",
            Self::Schedules => "fire, batches of 500",
        }
    }

    const fn goal(self) -> Goal {
        match self {
            Self::History => Goal::HistoryGrowth,
            Self::Depth => Goal::DepthGrowth,
            Self::Schedules => Goal::ScheduleGrowth,
        }
    }

    /// What the small side holds.
    const fn least(self) -> i64 {
        match self {
            Self::History => 0,
            Self::Depth | Self::Schedules => FEW,
        }
    }
}

/// What was measured at one size.
struct Point {
    size: i64,
    /// Medians, the small side's first.
    rates: [f64; 2],
    ratio: f64,
    middle_half: (f64, f64),
}

/// How far each grows.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub history: i64,
    pub depth: i64,
    pub schedules: i64,
}

/// Measures the section `growth`.
pub fn run(sizes: Sizes) -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let Sizes { history, depth, schedules } = sizes;
    let mut sheet = Sheet::new("growth", "Growth", &format!("growth {history} {depth} {schedules}"));
    sheet.say(format!(
        "Two stores of the same kind take turns, {TURNS} batches each at every size: one stays small, the other is filled more \
         and more. A ratio is that of the full one to the small one in the same minute. All jobs of both were counted \
         afterwards."
    ));
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        for place in [Place::Postgres(&server), Place::Sqlite] {
            on(place, sizes, &mut sheet, &mut survey).await?;
        }
        pinned::measure(&server, depth, &mut sheet, &mut survey).await?;
        report::keep(sheet, survey)
    })
}

/// Everything that grows on one store.
async fn on(place: Place<'_>, sizes: Sizes, sheet: &mut Sheet, survey: &mut Survey) -> Outcome<()> {
    let store = place.name();
    let words = format!("{store}, per second:");
    let mut table = Table::new(&words, ["what", "with", "few", "many", "ratio", "middle half"]);
    let mut series = Vec::new();
    let history = if matches!(place, Place::Sqlite) { sizes.history.min(SQLITE_HISTORY) } else { sizes.history };
    for (growing, most) in
        [(Growing::History, history), (Growing::Depth, sizes.depth), (Growing::Schedules, sizes.schedules)]
    {
        let points = grow(place, growing, most, survey).await?;
        for Point { size, rates: [few, many], ratio, middle_half } in &points {
            let with = format!("{} {}", counted(*size), growing.words());
            let words = [Cell::words(growing.work()), Cell::words(with)];
            let numbers = [Cell::number(*few, 0), Cell::number(*many, 0), Cell::number(*ratio, 2)];
            table.row(words.into_iter().chain(numbers).chain([Cell::range(*middle_half, 2)]));
        }
        if let Some((worst, most)) = worst(&points) {
            let of = format!("{store}, worst up to {}: with {}", counted(most), counted(worst.size));
            sheet.answer(growing.goal(), &of, worst.ratio);
        }
        let places = points.iter().map(|point| (number(point.size), point.ratio));
        series.push(Line::new(growing.words(), Tone::Ours, places));
    }
    sheet.tables.push(table);
    sheet.plots.push(Plot::Lines(Lines {
        title: format!("{store}: speed while something grows"),
        x: Axis::log("how many there are"),
        y: Axis::linear("of the speed of a store that stays small"),
        series,
        marks: vec![Mark::new(0.8, "goal: at least 0.8")],
    }));
    Ok(())
}

/// The size at which it is worst, because what costs most need not be the most there can be; and how far it grew. Before it
/// has grown, both sides are alike, and what they differ in is noise.
fn worst(points: &[Point]) -> Option<(&Point, i64)> {
    let grown = if points.len() > 1 { &points[1..] } else { points };
    let worst = grown.iter().min_by(|one, other| one.ratio.total_cmp(&other.ratio))?;
    Some((worst, grown.last()?.size))
}

/// Lets one thing grow, and compares at each size.
async fn grow(place: Place<'_>, growing: Growing, most: i64, survey: &mut Survey) -> Outcome<Vec<Point>> {
    let mut sides = [Side::open(place, survey).await?, Side::open(place, survey).await?];
    sides[0].grow(growing, growing.least()).await?;
    let mut points = Vec::new();
    for size in sizes(growing.least(), most) {
        eprintln!("{}: {} {}", place.name(), counted(size), growing.words());
        sides[1].grow(growing, size).await?;
        let mut rates = [Vec::new(), Vec::new()];
        for turn in 0..TURNS {
            for at in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                rates[at].push(sides[at].turn(growing).await?);
            }
        }
        let ratios: Vec<f64> = rates[1].iter().zip(&rates[0]).map(|(many, few)| many / few).collect();
        let rates = [median(&rates[0]), median(&rates[1])];
        points.push(Point { size, rates, ratio: median(&ratios), middle_half: middle_half(&ratios) });
    }
    for side in &sides {
        side.check_all_accounted_for().await?;
    }
    Ok(points)
}

/// From the least in factors of ten to the most.
fn sizes(least: i64, most: i64) -> Vec<i64> {
    let mut sizes = vec![least];
    let mut size = 10_000;
    while size < most {
        sizes.push(size);
        size *= 10;
    }
    sizes.extend((most > least).then_some(most));
    sizes
}

fn counted(size: i64) -> String {
    spelled(number(size), 0)
}

fn number(size: i64) -> f64 {
    usize::try_from(size).map_or(0.0, each)
}

#[cfg(test)]
mod tests {
    use super::{Point, sizes, worst};

    #[test]
    fn the_worst_size_is_judged_and_not_the_one_before_anything_has_grown() {
        let point = |(size, ratio)| Point { size, rates: [1.0, ratio], ratio, middle_half: (ratio, ratio) };
        let found = |points: &[(i64, f64)]| {
            let points: Vec<Point> = points.iter().copied().map(point).collect();
            worst(&points).map(|(worst, most)| (worst.size, most))
        };
        assert_eq!(found(&[(0, 0.7), (10, 0.8), (100, 0.9)]), Some((10, 100)));
        assert_eq!(found(&[(0, 0.7)]), Some((0, 0)));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn sizes_go_from_the_least_to_the_most_in_factors_of_ten() {
        assert_eq!(sizes(0, 1_000_000), [0, 10_000, 100_000, 1_000_000]);
        assert_eq!(sizes(1_000, 50_000), [1_000, 10_000, 50_000]);
        assert_eq!(sizes(1_000, 1_000), [1_000]);
    }
}
