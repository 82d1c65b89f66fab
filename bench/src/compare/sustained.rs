//! Producing and consuming at once, for a minute.

use super::answers::{count, count_if_told, figure};
use super::arena::{Arena, Played};
use super::failed::Failed;
use super::player::{OURS, RAW, Settings, Store, who_plays};
use super::scenario::Scenario;
use super::verdicts::Lines;
use crate::figures::median;
use crate::load::{Outcome, each};
use crate::report::{Axis, Goal, Line, Lines as PlottedLines, Plot, Sheet};
use serde_json::Value;

/// How long, when nothing is cut down.
const SECONDS: usize = 60;
/// The pace at which the queue must not grow, of what was reached without one.
const PACE: f64 = 0.8;
/// Jobs that are produced at once: how deep a queue is at a moment says no more than that.
const BATCH: f64 = 1000.0;

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    // With which settings somebody is faster is known from draining; a minute each is long enough.
    let entries = arena.best_entries("sustained", Store::Postgres);
    let seconds = arena.extent.of(SECONDS, 1);
    let mut failed = Failed::of("jobs/s");
    let lines = rounds(&arena, &entries, seconds, &mut failed).await?;
    let ours: Vec<_> = entries.iter().copied().filter(|(at, _)| !arena.players[*at].is_peer()).collect();
    let depths = depths(&arena, &ours, &lines, seconds).await?;
    let mut sheet = Sheet::new(
        "peers-sustained",
        "Producing and consuming at once, beside the peers",
        &arena.extent.command("sustained"),
    );
    sheet.say(format!(
        "One producer enqueues in batches as long as fewer than 20,000 jobs are waiting, and the workers work, for {seconds} \
         seconds; then the rest is drained and everything is counted. How deep the queue is comes of one more run, in which \
         jobs are produced at {:.0} % of the speed that was reached, whether or not somebody works.",
        PACE * 100.0
    ));
    let raw = lines.best_of(&arena, RAW, true);
    let against_raw = lines.ours_against(&arena, raw, true);
    sheet.say(format!("Punctual reaches {against_raw:.2} of raw SQL."));
    let peer = lines.best_peer(&arena, true, |_| true);
    sheet.answer(Goal::SustainedAgainstPeer, &lines.named(&arena, peer), lines.ours_against(&arena, peer, true));
    let at = ours.iter().position(|(at, _)| arena.players[*at].name == OURS);
    sheet.answer(Goal::SustainedDepth, "", at.map_or(f64::NAN, |at| growth(&depths[at])));
    sheet.tables.push(lines.table(&arena, "jobs/s", 0, &[]));
    sheet.tables.push(who_plays(&arena.players, &entries));
    sheet.plots.push(lines.plot(&arena, "Producing and consuming at once", "jobs/s", 0));
    sheet.plots.push(depth_plot(&arena, &ours, &depths));
    sheet.words.extend(failed.words(&arena.players));
    arena.keep(sheet)
}

/// Jobs a second in each round.
async fn rounds(arena: &Arena, entries: &[(usize, Settings)], seconds: usize, failed: &mut Failed) -> Outcome<Lines> {
    let mut lines = Lines::new(entries);
    for round in 0..arena.extent.rounds {
        for (at, entry) in Arena::round(entries, round) {
            let is_peer = arena.players[entry.0].is_peer();
            let read = |Played { done, .. }: &Played| {
                check_accounts(done, is_peer)?;
                Ok(each(count(done, "handled_in_time")?) / figure(done, "seconds")?)
            };
            let speed = arena.try_play(entry, Store::Postgres, Scenario::Sustained { seconds }, failed, read).await?;
            if let Some(speed) = speed {
                lines.add(at, speed);
            }
        }
    }
    Ok(lines)
}

/// How deep the queue of each of our own sides is, once a second, at a pace below what it has reached.
async fn depths(arena: &Arena, ours: &[(usize, Settings)], lines: &Lines, seconds: usize) -> Outcome<Vec<Vec<f64>>> {
    let mut depths = Vec::new();
    for entry in ours {
        let reached = lines.best_of(arena, &arena.players[entry.0].name, true);
        let per_second = PACE * reached.map_or(f64::NAN, |line| median(&line.values));
        let read = |Played { done, .. }: &Played| {
            check_accounts(done, false)?;
            Ok(done["depths"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
        };
        let scenario = Scenario::Paced { seconds, per_second };
        // One of our own, which cannot merely be noted as failed.
        let mut failed = Failed::of("depth");
        depths.push(arena.try_play(*entry, Store::Postgres, scenario, &mut failed, read).await?.unwrap_or_default());
    }
    Ok(depths)
}

/// No figure counts unless everything that was produced was handled, once, and nothing is left. Ours keep a record of each.
fn check_accounts(done: &Value, is_peer: bool) -> Outcome<()> {
    let (produced, handled) = (count(done, "produced")?, count(done, "handled")?);
    let distinct = count_if_told(done, "distinct")?.unwrap_or(handled);
    let kept = if is_peer { produced } else { count(done, "kept")? };
    if [handled, distinct, kept] != [produced; 3] || count(done, "left")? != 0 {
        return Err(format!("what was produced was to be handled, once: {done}").into());
    }
    Ok(())
}

/// How deep the queue is in the last quarter, against the second, each with a batch that may just have come.
fn growth(depths: &[f64]) -> f64 {
    let mean = |part: &[f64]| part.iter().sum::<f64>() / each(part.len());
    let quarter = depths.len() / 4;
    if quarter == 0 {
        return f64::NAN;
    }
    (mean(&depths[depths.len() - quarter..]) + BATCH) / (mean(&depths[quarter..2 * quarter]) + BATCH)
}

fn depth_plot(arena: &Arena, entries: &[(usize, Settings)], depths: &[Vec<f64>]) -> Plot {
    let series = entries.iter().zip(depths);
    let series = series.map(|((at, settings), depths)| {
        let player = &arena.players[*at];
        let points = depths.iter().enumerate().map(|(second, depth)| (each(second + 1), *depth));
        Line::new(player.title(), player.tone(*settings), points)
    });
    Plot::Lines(PlottedLines {
        title: "Jobs that wait while they are produced at a steady pace".to_owned(),
        x: Axis::linear("seconds"),
        y: Axis::linear("jobs"),
        series: series.collect(),
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{check_accounts, growth};
    use serde_json::json;

    #[test]
    fn the_last_quarter_is_compared_with_the_second() {
        assert!((growth(&[9e3, 9e3, 2e3, 2e3, 5e3, 5e3, 3.5e3, 3.5e3]) - 1.5).abs() < 1e-9);
        assert!((growth(&[0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 100.0, 100.0]) - 1.1).abs() < 1e-9, "less than a batch");
        assert!(growth(&[1.0, 2.0]).is_nan());
    }

    #[test]
    fn what_was_produced_was_handled_once_and_is_kept_by_ours() {
        let done = json!({ "produced": 7, "handled": 7, "left": 0 });
        assert!(check_accounts(&done, true).is_ok(), "not every peer counts the different ones");
        assert!(check_accounts(&done, false).is_err(), "ours say what they keep");
        let with = |key: &str, value: usize| {
            let mut done = json!({ "produced": 7, "handled": 7, "distinct": 7, "kept": 7, "left": 0 });
            done[key] = json!(value);
            check_accounts(&done, false).is_ok()
        };
        assert!(with("kept", 7) && !with("kept", 6) && !with("distinct", 6) && !with("handled", 8) && !with("left", 1));
    }
}
