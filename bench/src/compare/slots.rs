//! Many schedules that are due in the same minute: how long after it the last of their jobs has started.

use super::arena::{Arena, Failed, OURS, Played, RAW, Settings, Store, count, percentile, times, who_plays};
use super::verdicts::Lines;
use crate::load::{Outcome, each};
use crate::report::{self, Goal, Sheet};
use serde_json::json;

/// As many as an operator might have.
const MANY: usize = 1_000;
/// And as many as nobody should have at the same minute.
const VERY_MANY: usize = 100_000;

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    let entries = arena.entries("slots", Store::Postgres);
    let entries: Vec<_> = entries.into_iter().filter(|(_, settings)| *settings == Settings::Best).collect();
    let few: Vec<_> = entries.iter().copied().filter(|(at, _)| arena.players[*at].name != RAW).collect();
    let many = (MANY * arena.extent.percent / 100).max(10);
    let mut failed = Failed::default();
    let (lines, missed) = rounds(&arena, &few, many, 99, &mut failed).await?;
    let mut sheet =
        Sheet::new("peers-slots", "Schedules that are due at once, beside the peers", &arena.extent.command("slots"));
    sheet.say(format!(
        "{many} cron schedules are due at the same full minute; measured is what one in a hundred of their jobs exceeds, from \
         the minute to the first line of the handler."
    ));
    let ours = lines.best_of(&arena, OURS, false);
    sheet.answer(Goal::ThousandSlotsTail, "", ours.map_or(f64::NAN, |line| crate::figures::median(&line.values)));
    let peer = lines.best_peer(&arena, false, |_| true);
    sheet.answer(
        Goal::ThousandSlotsAgainstPeer,
        &lines.named(&arena, peer),
        1.0 / lines.ours_against(&arena, peer, false),
    );
    sheet.tables.push(lines.table(&arena, "p99, ms", 0, &[("slots missed", 0, &missed)]));
    sheet.plots.push(lines.plot(&arena, &format!("{many} schedules due at once: p99 of the starts"), "ms", 0));
    all_at_once(&arena, &entries, &mut sheet).await?;
    sheet.tables.push(who_plays(&arena, &entries));
    sheet.words.extend(failed.words(&arena));
    report::keep(sheet, arena.survey)
}

/// The same with very many, until the last one has ended, against raw SQL that fires and works through as many.
async fn all_at_once(arena: &Arena, entries: &[(usize, Settings)], sheet: &mut Sheet) -> Outcome<()> {
    let two: Vec<_> = entries.iter().copied().filter(|(at, _)| !arena.players[*at].is_peer()).collect();
    let very_many = (VERY_MANY * arena.extent.percent / 100).max(10);
    let (lines, missed) = rounds(arena, &two, very_many, 100, &mut Failed::default()).await?;
    sheet.answer(Goal::ManySlotsAgainstRaw, "", lines.ours_against(arena, lines.best_of(arena, RAW, false), false));
    let fenced: f64 =
        missed.0.iter().filter(|line| arena.players[line.player].name == OURS).flat_map(|line| &line.values).sum();
    sheet.answer(Goal::ManySlotsMissedHeartbeats, "", fenced);
    let mut table = lines.table(arena, "ms until the last start", 0, &[("leases lost", 0, &missed)]);
    table.words = format!("{very_many} schedules due at once, until the last of their jobs has started:");
    sheet.tables.push(table);
    Ok(())
}

/// A percentile of the starts; and what was missed of the slots, or of the heartbeats where these are told.
async fn rounds(
    arena: &Arena, entries: &[(usize, Settings)], schedules: usize, percent: usize, failed: &mut Failed,
) -> Outcome<(Lines, Lines)> {
    let (mut lines, mut missed) = (Lines::new(entries), Lines::new(entries));
    for round in 0..arena.extent.rounds {
        for (at, (player, settings)) in Arena::round(entries, round) {
            let request = json!({ "scenario": "slots", "schedules": schedules, "batch": 500 });
            let played = arena.try_play((player, settings), Store::Postgres, request, failed).await?;
            let Some(played) = played else { continue };
            lines.add(at, percentile(&times(&played.done)?, percent));
            missed.add(at, each(missed_of(&played, schedules, arena.players[player].is_peer())?));
        }
    }
    Ok((lines, missed))
}

/// A peer may miss some, which is told; of ours every one must be accounted for.
fn missed_of(played: &Played, schedules: usize, is_peer: bool) -> Outcome<usize> {
    let missed = count(&played.done, "missed")?;
    if is_peer {
        return Ok(missed);
    }
    let kept = [count(&played.done, "kept")?, count(&played.done, "left")?];
    if missed != 0 || kept != [schedules, 0] {
        return Err(format!("{schedules} slots were to run: missed {missed}, {kept:?}").into());
    }
    Ok(count(&played.done, "heartbeats_missed").unwrap_or_default())
}
