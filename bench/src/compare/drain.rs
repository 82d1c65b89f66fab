//! How fast a queue is emptied: many jobs are enqueued, then the workers are started.

use super::arena::{Arena, BARE, Failed, Played, RAW, RAW_LARGE, Settings, Store, count, figure, who_plays};
use super::verdicts::Lines;
use crate::load::{Outcome, each};
use crate::report::{self, Goal, Sheet};
use serde_json::json;

/// Prints and keeps the section about PostgreSQL.
pub async fn on_postgres(arena: Arena) -> Outcome<()> {
    let entries = arena.entries("drain", Store::Postgres);
    let (speeds, costs, failed) = rounds(&arena, &entries, Store::Postgres).await?;
    let mut sheet = Sheet::new("peers-drain", "Draining a queue, beside the peers", &arena.extent.command("drain"));
    sheet.say(
        "No-op jobs are enqueued in bulk; the time runs from the start of the workers until the tables say that every job \
         is done. Everybody has an empty database of its own on the same server, and plays as often as the others, forwards \
         and backwards by turns. Each ratio is the median of the ratios within the rounds. Our own sides have their \
         statements prepared by then, as an idle node has. Raw SQL claims and finishes in batches of 1000 and, as \
         `raw SQL, large batches`, of 4000, which is the most that Punctual claims at once; neither vacuums. `keeps nothing` is \
         one table by hand-written SQL, whose rows are marked and then deleted.",
    );
    let raw = speeds.best_of(&arena, RAW, true);
    sheet.answer(Goal::DrainAgainstRaw, "", speeds.ours_against(&arena, raw, true));
    let large = speeds.best_of(&arena, RAW_LARGE, true);
    sheet.answer(Goal::DrainAgainstRawInLargeBatches, "", speeds.ours_against(&arena, large, true));
    let without = speeds.best_peer(&arena, true, |keeps| keeps == "no");
    sheet.answer(
        Goal::DrainAgainstPeerWithoutRecord,
        &speeds.named(&arena, without),
        speeds.ours_against(&arena, without, true),
    );
    let with = speeds.best_peer(&arena, true, |keeps| keeps != "no");
    sheet.answer(
        Goal::DrainAgainstPeerWithRecord,
        &speeds.named(&arena, with),
        speeds.ours_against(&arena, with, true),
    );
    let bare = costs.wal.best_of(&arena, BARE, false);
    let (ours, raws) = (costs.wal.ours_against(&arena, bare, false), costs.wal.raw_against(&arena, bare, false));
    sheet.answer_beside_raw(Goal::WalAgainstBareQueue, "", ours, raws);
    let more = [
        ("WAL bytes a job", 0, &costs.wal),
        ("commits a job", 4, &costs.commits),
        ("dead rows a job", 1, &costs.dead),
        ("memory, MB", 0, &costs.memory),
    ];
    sheet.tables.push(speeds.table(&arena, "jobs/s", 0, &more));
    sheet.tables.push(who_plays(&arena, &entries));
    sheet.plots.push(speeds.plot(&arena, "Draining a queue on PostgreSQL", "jobs/s", 0));
    sheet.plots.push(costs.wal.plot(&arena, "Write-ahead log for a drained job", "bytes", 0));
    sheet.words.extend(failed.words(&arena));
    report::keep(sheet, arena.survey)
}

/// The same about SQLite.
pub async fn on_sqlite(mut arena: Arena) -> Outcome<()> {
    arena.note_sqlite().await?;
    let entries = arena.entries("drain", Store::Sqlite);
    let (speeds, costs, failed) = rounds(&arena, &entries, Store::Sqlite).await?;
    let mut sheet =
        Sheet::new("peers-sqlite", "Draining a queue on SQLite, beside the peers", &arena.extent.command("sqlite"));
    sheet.say("The same with a file of its own for each run, in WAL mode with `synchronous=FULL`: read from the very connections of \
         Punctual and of raw SQL, and set for the peers as `bench/peers/README.md` says.",
    );
    let raw = speeds.best_of(&arena, RAW, true);
    sheet.answer(Goal::SqliteDrainAgainstRaw, "", speeds.ours_against(&arena, raw, true));
    let peer = speeds.best_peer(&arena, true, |_| true);
    sheet.answer(Goal::SqliteDrainAgainstPeer, &speeds.named(&arena, peer), speeds.ours_against(&arena, peer, true));
    sheet.tables.push(speeds.table(&arena, "jobs/s", 0, &[("memory, MB", 0, &costs.memory)]));
    sheet.tables.push(who_plays(&arena, &entries));
    sheet.plots.push(speeds.plot(&arena, "Draining a queue on SQLite", "jobs/s", 0));
    sheet.words.extend(failed.words(&arena));
    report::keep(sheet, arena.survey)
}

/// What a job costs the database.
struct Costs {
    wal: Lines,
    commits: Lines,
    dead: Lines,
    memory: Lines,
}

async fn rounds(arena: &Arena, entries: &[(usize, Settings)], store: Store) -> Outcome<(Lines, Costs, Failed)> {
    let (mut speeds, mut failed) = (Lines::new(entries), Failed::default());
    let empty = || Lines::new(entries);
    let mut costs = Costs { wal: empty(), commits: empty(), dead: empty(), memory: empty() };
    for round in 0..arena.extent.rounds {
        for (at, (player, settings)) in Arena::round(entries, round) {
            let jobs = arena.players[player].jobs(settings, store, &arena.extent);
            let request = json!({ "scenario": "drain", "jobs": jobs });
            let Some(played) = arena.try_play((player, settings), store, request, &mut failed).await? else { continue };
            check_accounts(&played, jobs, arena.players[player].keeps())?;
            speeds.add(at, each(jobs) / figure(&played.done, "seconds")?);
            costs.wal.add(at, played.wal_bytes / each(jobs));
            costs.commits.add(at, played.commits / each(jobs));
            costs.dead.add(at, played.dead_rows / each(jobs));
            costs.memory.add(at, played.memory_mb);
        }
    }
    Ok((speeds, costs, failed))
}

/// No figure counts unless every job was handled, once, and nothing is left.
fn check_accounts(played: &Played, jobs: usize, keeps: &str) -> Outcome<()> {
    let done = &played.done;
    let kept = if keeps == "yes" { count(done, "kept")? } else { jobs };
    let all = [count(done, "handled")?, count(done, "distinct")?, kept];
    if all != [jobs; 3] || count(done, "left")? != 0 {
        return Err(format!("{jobs} jobs were to be handled, and this is what became of them: {done}").into());
    }
    Ok(())
}
