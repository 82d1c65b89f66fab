//! How fast a queue is emptied: many jobs are enqueued, then the workers are started.

use super::answers::{count, figure};
use super::arena::{Arena, Played};
use super::failed::Failed;
use super::player::{BARE, OURS, RAW, RAW_LARGE, Settings, Store, who_plays};
use super::scenario::Scenario;
use super::verdicts::{Lines, ratio_of};
use crate::load::{Outcome, each};
use crate::report::{Goal, Sheet};

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
         `raw SQL, large batches`, of 4000, which is the most that Punctual claims at once; neither vacuums. `keeps nothing` \
         is one table by hand-written SQL, whose rows are marked and then deleted.",
    );
    answer_against_raw(&arena, &speeds, &costs.wal, &mut sheet);
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
    let more = [
        ("WAL bytes a job", 0, &costs.wal),
        ("commits a job", 4, &costs.commits),
        ("dead rows a job", 1, &costs.dead),
        ("memory, MB", 0, &costs.memory),
    ];
    sheet.tables.push(speeds.table(&arena, "jobs/s", 0, &more));
    sheet.tables.push(who_plays(&arena.players, &entries));
    sheet.plots.push(speeds.plot(&arena, "Draining a queue on PostgreSQL", "jobs/s", 0));
    sheet.plots.push(costs.wal.plot(&arena, "Write-ahead log for a drained job", "bytes", 0));
    sheet.words.extend(failed.words(&arena.players));
    arena.keep(sheet)
}

/// The goals about hand-written SQL: in batches as the goal was set with, in large ones, and what the faster of both wrote
/// meanwhile.
fn answer_against_raw(arena: &Arena, speeds: &Lines, wal: &Lines, sheet: &mut Sheet) {
    let raw = speeds.best_among(arena, &[RAW, RAW_LARGE], true);
    let ours = speeds.best_of(arena, OURS, true);
    for (name, which) in [(RAW, "in batches of 1000"), (RAW_LARGE, "in batches of 4000")] {
        sheet.answer(Goal::DrainAgainstRaw, which, ratio_of(ours, speeds.best_of(arena, name, true)));
    }
    // What is written by those settings with which each is fast, or a slow one could look thrifty.
    let (ours, raw) = (wal.same_as(ours), wal.same_as(raw));
    sheet.answer(Goal::WalAgainstRaw, "claim + finish, drained by a node", ratio_of(ours, raw));
    let bare = wal.best_of(arena, BARE, false);
    sheet.answer_beside_raw(Goal::WalAgainstBareQueue, "", ratio_of(ours, bare), ratio_of(raw, bare));
}

/// The same about SQLite.
pub async fn on_sqlite(mut arena: Arena) -> Outcome<()> {
    arena.note_sqlite().await?;
    let entries = arena.entries("drain", Store::Sqlite);
    let (speeds, costs, failed) = rounds(&arena, &entries, Store::Sqlite).await?;
    let mut sheet =
        Sheet::new("peers-sqlite", "Draining a queue on SQLite, beside the peers", &arena.extent.command("sqlite"));
    sheet.say(
        "The same with a file of its own for each run, in WAL mode with `synchronous=FULL`: read from the very connections \
         that worked, and nobody has a figure of whom that is not known.",
    );
    let raw = speeds.best_of(&arena, RAW, true);
    sheet.answer(Goal::SqliteDrainAgainstRaw, "", speeds.ours_against(&arena, raw, true));
    let peer = speeds.best_peer(&arena, true, |_| true);
    sheet.answer(Goal::SqliteDrainAgainstPeer, &speeds.named(&arena, peer), speeds.ours_against(&arena, peer, true));
    sheet.tables.push(speeds.table(&arena, "jobs/s", 0, &[("memory, MB", 0, &costs.memory)]));
    sheet.tables.push(who_plays(&arena.players, &entries));
    sheet.plots.push(speeds.plot(&arena, "Draining a queue on SQLite", "jobs/s", 0));
    sheet.words.extend(failed.words(&arena.players));
    arena.keep(sheet)
}

/// What a job costs the database.
struct Costs {
    wal: Lines,
    commits: Lines,
    dead: Lines,
    memory: Lines,
}

async fn rounds(arena: &Arena, entries: &[(usize, Settings)], store: Store) -> Outcome<(Lines, Costs, Failed)> {
    let (mut speeds, mut failed) = (Lines::new(entries), Failed::of("jobs/s"));
    let empty = || Lines::new(entries);
    let mut costs = Costs { wal: empty(), commits: empty(), dead: empty(), memory: empty() };
    for round in 0..arena.extent.rounds {
        for (at, (player, settings)) in Arena::round(entries, round) {
            let jobs = arena.players[player].jobs(settings, store, arena.extent.percent);
            let read = |played: &Played| {
                check_accounts(played, jobs, arena.players[player].keeps())?;
                speeds.add(at, each(jobs) / figure(&played.done, "seconds")?);
                costs.wal.add(at, played.wal_bytes / each(jobs));
                costs.commits.add(at, played.commits / each(jobs));
                costs.dead.add(at, played.dead_rows / each(jobs));
                costs.memory.add(at, played.memory_mb);
                Ok(())
            };
            arena.try_play((player, settings), store, Scenario::Drain { jobs }, &mut failed, read).await?;
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
