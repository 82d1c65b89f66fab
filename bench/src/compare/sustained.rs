//! Producing and consuming at once, for a minute.

use super::arena::{Arena, Failed, OURS, RAW, Settings, Store, count, figure, who_plays};
use super::verdicts::Lines;
use crate::figures::median;
use crate::load::{Outcome, each};
use crate::report::{self, Axis, Goal, Line, Lines as PlottedLines, Plot, Sheet};
use serde_json::{Value, json};

/// How long, when nothing is cut down.
const SECONDS: usize = 60;
/// The pace at which the queue must not grow, of what was reached without one.
const PACE: f64 = 0.8;
/// Jobs that are produced at once: how deep a queue is at a moment says no more than that.
const BATCH: f64 = 1000.0;

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    let entries = arena.entries("sustained", Store::Postgres);
    // With which settings somebody is faster is known from draining; a minute each is long enough.
    let entries: Vec<_> = entries.into_iter().filter(|(_, settings)| *settings == Settings::Best).collect();
    let seconds = (SECONDS * arena.extent.percent / 100).max(1);
    let mut failed = Failed::default();
    let mut lines = Lines::new(&entries);
    for round in 0..arena.extent.rounds {
        for (at, (player, settings)) in Arena::round(&entries, round) {
            let request = json!({ "scenario": "sustained", "seconds": seconds });
            let played = arena.try_play((player, settings), Store::Postgres, request, &mut failed).await?;
            let Some(played) = played else { continue };
            check_accounts(&played.done)?;
            lines.add(at, each(count(&played.done, "handled_in_time")?) / figure(&played.done, "seconds")?);
        }
    }
    let ours: Vec<_> = entries.iter().copied().filter(|(at, _)| !arena.players[*at].is_peer()).collect();
    let mut depths: Vec<Vec<f64>> = Vec::new();
    for (player, settings) in &ours {
        let reached = lines.best_of(&arena, &arena.players[*player].name, true);
        let pace = PACE * reached.map_or(f64::NAN, |line| median(&line.values));
        let request =
            json!({ "scenario": "sustained", "seconds": seconds, "per_second": pace, "window": usize::MAX / 2 });
        let played = arena.play(*player, *settings, Store::Postgres, request).await?;
        check_accounts(&played.done)?;
        depths.push(played.done["depths"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect());
    }
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
    sheet.tables.push(who_plays(&arena, &entries));
    sheet.plots.push(lines.plot(&arena, "Producing and consuming at once", "jobs/s", 0));
    sheet.plots.push(depth_plot(&arena, &ours, &depths));
    sheet.words.extend(failed.words(&arena));
    report::keep(sheet, arena.survey)
}

fn check_accounts(done: &Value) -> Outcome<()> {
    let all = [count(done, "produced")?, count(done, "handled")?];
    if all[0] != all[1] || count(done, "left")? != 0 {
        return Err(format!("what was produced was to be handled: {done}").into());
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
    use super::growth;

    #[test]
    fn the_last_quarter_is_compared_with_the_second() {
        assert!((growth(&[9e3, 9e3, 2e3, 2e3, 5e3, 5e3, 3.5e3, 3.5e3]) - 1.5).abs() < 1e-9);
        assert!((growth(&[0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 100.0, 100.0]) - 1.1).abs() < 1e-9, "less than a batch");
        assert!(growth(&[1.0, 2.0]).is_nan());
    }
}
