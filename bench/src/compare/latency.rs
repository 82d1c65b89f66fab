//! From the call that enqueues a job to its start: on a node that has nothing to do, and on one at half its load.

use super::arena::{Arena, Failed, RAW, Settings, Store, count, figure, percentile, times, who_plays};
use super::verdicts::{Lines, extremes};
use crate::figures::median;
use crate::load::{Outcome, each};
use crate::report::{self, Goal, Plot, Sheet, Strip, Strips};
use serde_json::json;

/// Probes in one run.
const PROBES: usize = 100;
/// How long it is tried how much somebody can do at all.
const TRIAL_SECONDS: u64 = 3;

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    let entries = arena.entries("latency", Store::Postgres);
    let mut sheet =
        Sheet::new("peers-latency", "From enqueue to start, beside the peers", &arena.extent.command("latency"));
    sheet.say(format!(
        "{PROBES} jobs in each round, a fifth of them for settings as they come, with pauses of 30 to 170 ms between them, in which a worker goes idle; from before the \
         call that enqueues one to the first line of its handler, in one process. Raw SQL is two connections: one writes the \
         row and a NOTIFY, the other hears it and claims. \
         Punctual's node hears of a job in its own process by a channel there; `lateness` has the same between processes."
    ));
    let mut failed = Failed::default();
    let idle = rounds(&arena, &entries, &vec![0; entries.len()], &mut failed).await?;
    let raw = [0, 1].map(|at| idle[at].best_of(&arena, RAW, false).cloned());
    // The tail of a hundred is not compared with that of twenty.
    let compared = [idle[0].clone(), idle[1].of_best_settings()];
    let peers = [0, 1].map(|at| compared[at].best_peer(&arena, false, |_| true).cloned());
    let against =
        |at: usize, other: &Option<super::verdicts::Line>| compared[at].ours_against(&arena, other.as_ref(), false);
    sheet.answer(Goal::StartMiddleAgainstRaw, "", against(0, &raw[0]));
    sheet.answer(Goal::StartTailAgainstRaw, "", against(1, &raw[1]));
    let named = |at: usize| compared[at].named(&arena, peers[at].as_ref());
    sheet.answer(Goal::StartMiddleAgainstPeer, &named(0), against(0, &peers[0]));
    sheet.answer(Goal::StartTailAgainstPeer, &named(1), against(1, &peers[1]));
    tell(&mut sheet, &arena, "Idle", &idle);
    let busy: Vec<_> = entries.iter().copied().filter(|(at, _)| arena.players[*at].name != RAW).collect();
    let busy: Vec<_> = busy.into_iter().filter(|(_, settings)| *settings == Settings::Best).collect();
    let rates = half_loads(&arena, &busy, &mut failed).await?;
    let loaded = rounds(&arena, &busy, &rates, &mut failed).await?;
    tell(&mut sheet, &arena, "At half of what each can sustain", &loaded);
    sheet.tables.push(who_plays(&arena, &entries));
    sheet.words.extend(failed.words(&arena));
    report::keep(sheet, arena.survey)
}

/// Half of what each sustains, in a short trial.
async fn half_loads(arena: &Arena, entries: &[(usize, Settings)], failed: &mut Failed) -> Outcome<Vec<usize>> {
    let mut rates = Vec::new();
    for (player, settings) in entries {
        let request = json!({ "scenario": "sustained", "seconds": TRIAL_SECONDS });
        let Some(played) = arena.try_play((*player, *settings), Store::Postgres, request, failed).await? else {
            rates.push(0);
            continue;
        };
        let handled = count(&played.done, "handled_in_time")?;
        let half = each(handled) / figure(&played.done, "seconds")? / 2.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of jobs")]
        rates.push(half as usize);
    }
    Ok(rates)
}

/// The middle and the tail.
async fn rounds(
    arena: &Arena, entries: &[(usize, Settings)], background: &[usize], failed: &mut Failed,
) -> Outcome<[Lines; 2]> {
    let mut lines = [Lines::new(entries), Lines::new(entries)];
    for round in 0..arena.extent.rounds {
        for (at, (player, settings)) in Arena::round(entries, round) {
            // As they come, some look for work every two seconds only.
            let probes = if settings == Settings::Best { PROBES } else { PROBES / 5 };
            let probes = (probes * arena.extent.percent / 100).max(10);
            let request = json!({ "scenario": "latency", "probes": probes, "background_per_second": background[at] });
            let played = arena.try_play((player, settings), Store::Postgres, request, failed).await?;
            let Some(played) = played else { continue };
            let times = times(&played.done)?;
            let others = [count(&played.done, "background_handled")?, count(&played.done, "background_enqueued")?];
            if times.len() != probes || others[0] != others[1] {
                return Err(format!("{probes} probes and all others were to be started: {}", played.done).into());
            }
            lines[0].add(at, percentile(&times, 50));
            lines[1].add(at, percentile(&times, 99));
        }
    }
    Ok(lines)
}

fn tell(sheet: &mut Sheet, arena: &Arena, title: &str, [middle, tail]: &[Lines; 2]) {
    let mut table = middle.table(arena, "p50, ms", 2, &[("p99, ms", 2, tail)]);
    table.words = format!("{title}:");
    sheet.tables.push(table);
    let mut rows: Vec<Strip> = Vec::new();
    for (middle, tail) in middle.0.iter().zip(&tail.0) {
        let player = &arena.players[middle.player];
        let settings = if player.has_one_setting() { String::new() } else { format!(", {}", middle.settings.word()) };
        let spreads = [extremes(&middle.values), extremes(&tail.values)];
        let label = format!("{}{settings}", player.title());
        let times = (median(&middle.values), median(&tail.values));
        rows.push(Strip::new(label, player.tone(middle.settings), times, Some(spreads)));
    }
    rows.sort_by(|one, other| one.p50.total_cmp(&other.p50));
    let title = format!("From enqueue to start: {}", title.to_lowercase());
    sheet.plots.push(Plot::Strips(Strips { title, unit: "ms".to_owned(), digits: 1, rows, marks: Vec::new() }));
}
