//! How fast jobs are enqueued: one by one by a single caller, by sixteen at once, and in batches.

use super::arena::{Arena, Failed, RAW, Settings, Store, count, figure, who_plays};
use super::verdicts::Lines;
use crate::load::{Outcome, each};
use crate::report::{self, Goal, Sheet};
use serde_json::{Value, json};

/// What callers do, and how many jobs make some seconds for the fastest.
const WAYS: [(&str, &str, usize, usize); 3] = [
    ("one caller, one by one", "single", 1, 4_000),
    ("16 callers, one by one", "single", 16, 16_000),
    ("one caller, batches of 1000", "batch", 1, 100_000),
];

/// Which goals each way answers.
const GOALS: [(Goal, Goal); 3] = [
    (Goal::EnqueueOneCallerAgainstRaw, Goal::EnqueueOneCallerAgainstPeer),
    (Goal::EnqueueManyCallersAgainstRaw, Goal::EnqueueManyCallersAgainstPeer),
    (Goal::EnqueueBatchedAgainstRaw, Goal::EnqueueBatchedAgainstPeer),
];

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    // How a worker is set up makes no difference here.
    let entries: Vec<_> = arena.entries("enqueue", Store::Postgres);
    let entries: Vec<_> = entries.into_iter().filter(|(_, settings)| *settings == Settings::Best).collect();
    let mut sheet = Sheet::new("peers-enqueue", "Enqueueing, beside the peers", &arena.extent.command("enqueue"));
    sheet.say(
        "No-op jobs are enqueued while nobody works, each caller waiting for the answer before the next call; the tables \
         are counted afterwards. 16 callers of raw SQL have a connection each. In batches, raw SQL sends target and input of \
         every job; Punctual sends once what all of a batch have in common.",
    );
    let mut failed = Failed::default();
    for ((title, mode, callers, jobs), (raw, peer)) in WAYS.into_iter().zip(GOALS) {
        let jobs = (jobs * arena.extent.percent / 100).max(callers) / callers * callers;
        let request = json!({ "scenario": "enqueue", "mode": mode, "callers": callers, "jobs": jobs, "batch": 1000 });
        let lines = rounds(&arena, &entries, &request, &mut failed).await?;
        let reference = lines.best_of(&arena, RAW, true);
        sheet.answer(raw, "", lines.ours_against(&arena, reference, true));
        let best = lines.best_peer(&arena, true, |_| true);
        let ours = lines.ours_against(&arena, best, true);
        sheet.answer_beside_raw(peer, &lines.named(&arena, best), ours, lines.raw_against(&arena, best, true));
        let mut table = lines.table(&arena, "jobs/s", 0, &[]);
        table.words = format!("{}:", capitalized(title));
        sheet.tables.push(table);
        sheet.plots.push(lines.plot(&arena, &format!("Enqueueing: {title}"), "jobs/s", 0));
    }
    sheet.tables.push(who_plays(&arena, &entries));
    sheet.words.extend(failed.words(&arena));
    report::keep(sheet, arena.survey)
}

fn capitalized(words: &str) -> String {
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

async fn rounds(arena: &Arena, entries: &[(usize, Settings)], request: &Value, failed: &mut Failed) -> Outcome<Lines> {
    let mut lines = Lines::new(entries);
    for round in 0..arena.extent.rounds {
        for (at, (player, settings)) in Arena::round(entries, round) {
            let played = arena.try_play((player, settings), Store::Postgres, request.clone(), failed).await?;
            let Some(played) = played else { continue };
            let (asked, enqueued) = (count(request, "jobs")?, count(&played.done, "enqueued")?);
            if (enqueued, count(&played.done, "stored")?) != (asked, asked) {
                return Err(format!("{asked} jobs were to be stored: {}", played.done).into());
            }
            lines.add(at, each(enqueued) / figure(&played.done, "seconds")?);
        }
    }
    Ok(lines)
}
