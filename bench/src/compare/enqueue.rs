//! How fast jobs are enqueued: one by one by a single caller, by sixteen at once, and in batches.

use super::answers::{count, figure};
use super::arena::{Arena, Played};
use super::failed::Failed;
use super::player::{RAW, Settings, Store, who_plays};
use super::scenario::{BATCH, Scenario};
use super::verdicts::Lines;
use crate::load::{Outcome, each};
use crate::report::{Goal, Sheet};

/// How long a run is to last about: what is shorter is over before connections and log have warmed up.
const SECONDS: f64 = 3.0;
/// One in so many of the most jobs is enough to find out how fast somebody is.
const TRIAL: usize = 20;

/// What callers do.
struct Way {
    title: &'static str,
    mode: &'static str,
    callers: usize,
    /// As many jobs as take the fastest about so long; the slower ones get as many as they manage in that time.
    most: usize,
    /// A caller of many has as many jobs as another, and no batch is smaller than the others.
    step: usize,
    against_raw: Goal,
    against_peer: Goal,
}

const WAYS: [Way; 3] = [
    Way {
        title: "one caller, one by one",
        mode: "single",
        callers: 1,
        most: 15_000,
        step: 1,
        against_raw: Goal::EnqueueOneCallerAgainstRaw,
        against_peer: Goal::EnqueueOneCallerAgainstPeer,
    },
    Way {
        title: "16 callers, one by one",
        mode: "single",
        callers: 16,
        most: 112_000,
        step: 16,
        against_raw: Goal::EnqueueManyCallersAgainstRaw,
        against_peer: Goal::EnqueueManyCallersAgainstPeer,
    },
    Way {
        title: "one caller, batches of 1000",
        mode: "batch",
        callers: 1,
        most: 600_000,
        step: BATCH,
        against_raw: Goal::EnqueueBatchedAgainstRaw,
        against_peer: Goal::EnqueueBatchedAgainstPeer,
    },
];

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    // How a worker is set up makes no difference here.
    let entries = arena.best_entries("enqueue", Store::Postgres);
    let mut sheet = Sheet::new("peers-enqueue", "Enqueueing, beside the peers", &arena.extent.command("enqueue"));
    sheet.say(format!(
        "No-op jobs are enqueued while nobody works, each caller waiting for the answer before the next call; the tables \
         are counted afterwards. Each run has as many jobs as take about {SECONDS:.0} s, by a trial before that does not \
         count. 16 callers of raw SQL have a connection each. In batches, raw SQL sends target and input of every job; \
         Punctual sends once what all of a batch have in common.",
    ));
    let mut explained = Vec::new();
    for way in &WAYS {
        let mut failed = Failed::of(way.title);
        let jobs = by_pace(&arena, &entries, way, &mut failed).await?;
        let lines = rounds(&arena, &entries, way, &jobs, &mut failed).await?;
        let reference = lines.best_of(&arena, RAW, true);
        sheet.answer(way.against_raw, "", lines.ours_against(&arena, reference, true));
        let best = lines.best_peer(&arena, true, |_| true);
        let ours = lines.ours_against(&arena, best, true);
        let raw = lines.raw_against(&arena, best, true);
        sheet.answer_beside_raw(way.against_peer, &lines.named(&arena, best), ours, raw);
        let mut table = lines.table(&arena, "jobs/s", 0, &[]);
        table.words = format!("{}:", capitalized(way.title));
        sheet.tables.push(table);
        sheet.plots.push(lines.plot(&arena, &format!("Enqueueing: {}", way.title), "jobs/s", 0));
        explained.extend(failed.words(&arena.players));
    }
    sheet.tables.push(who_plays(&arena.players, &entries));
    sheet.words.extend(explained);
    arena.keep(sheet)
}

fn capitalized(words: &str) -> String {
    let mut characters = words.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// How many jobs each gets.
async fn by_pace(arena: &Arena, entries: &[(usize, Settings)], way: &Way, failed: &mut Failed) -> Outcome<Vec<usize>> {
    let most = arena.extent.of(way.most, way.step);
    let mut all = Vec::new();
    for entry in entries {
        let jobs = in_steps(most / TRIAL, way.step);
        let pace = arena.try_play(*entry, Store::Postgres, way.scenario(jobs), failed, |played| speed(played, jobs));
        let pace = pace.await?.unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of jobs")]
        let in_time = (pace * SECONDS) as usize;
        all.push(in_steps(in_time.min(most), way.step));
    }
    Ok(all)
}

fn in_steps(jobs: usize, step: usize) -> usize {
    (jobs / step).max(1) * step
}

impl Way {
    fn scenario(&self, jobs: usize) -> Scenario {
        Scenario::Enqueue { mode: self.mode, callers: self.callers, jobs }
    }
}

async fn rounds(
    arena: &Arena, entries: &[(usize, Settings)], way: &Way, jobs: &[usize], failed: &mut Failed,
) -> Outcome<Lines> {
    let mut lines = Lines::new(entries);
    for round in 0..arena.extent.rounds {
        for (at, entry) in Arena::round(entries, round) {
            let read = |played: &Played| speed(played, jobs[at]);
            let speed = arena.try_play(entry, Store::Postgres, way.scenario(jobs[at]), failed, read).await?;
            if let Some(speed) = speed {
                lines.add(at, speed);
            }
        }
    }
    Ok(lines)
}

/// Jobs a second, if the tables have exactly those that were asked for.
fn speed(played: &Played, jobs: usize) -> Outcome<f64> {
    let found = [count(&played.done, "enqueued")?, count(&played.done, "stored")?];
    if found != [jobs; 2] {
        return Err(format!("{jobs} jobs were to be stored: {}", played.done).into());
    }
    Ok(each(jobs) / figure(&played.done, "seconds")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_caller_has_as_many_jobs_as_another() {
        assert_eq!((in_steps(2_800, 16), in_steps(35, 16), in_steps(3, 16)), (2_800, 32, 16));
        assert!(WAYS.iter().all(|way| way.most % way.step == 0 && way.step % way.callers == 0));
    }
}
