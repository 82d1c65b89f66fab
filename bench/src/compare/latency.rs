//! From the call that enqueues a job to its start: on a node that has nothing to do, and on one at half its load.

use super::answers::{count, count_if_told, figure, times};
use super::arena::{Arena, Played};
use super::failed::Failed;
use super::player::{OURS_APART, RAW, Settings, Store, who_plays};
use super::pools::{MIDDLE, Pools, TAIL};
use super::scenario::Scenario;
use super::verdicts::{Lines, ratio_of};
use crate::load::{Outcome, each};
use crate::report::{Goal, Sheet};

/// Probes in one run with the best settings.
const PROBES: usize = 300;
/// The same with settings as they come, with which some look for work every two seconds only.
const PROBES_AS_IT_COMES: usize = 20;
/// How long it is tried how much somebody can do at all.
const TRIAL_SECONDS: usize = 3;
/// Jobs that come beside the probes, in a second, for each entry; none for a node that is idle.
type Beside<'a> = Option<&'a [usize]>;

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    let entries = arena.entries("latency", Store::Postgres);
    let mut sheet =
        Sheet::new("peers-latency", "From enqueue to start, beside the peers", &arena.extent.command("latency"));
    sheet.say(format!(
        "{PROBES} jobs in each round, {PROBES_AS_IT_COMES} for settings as they come, with pauses of 30 to 170 ms between \
         them, in which a worker goes idle; from before the call that enqueues one to the first line of its handler. \
         Percentiles are those of all rounds together, by nearest rank, none of the tail where there are fewer than a \
         hundred times; the spreads are those of the rounds' own. Raw SQL is two connections: one writes the row and a \
         NOTIFY, the other hears it and claims. Punctual plays twice: with jobs from a handle of the store of their own, of \
         which its node hears through the database, as it would from another process; and with jobs from the node's own \
         handle, of which it hears within the process. The goals are answered by the former, and by the best settings of \
         everybody."
    ));
    let mut failed = Failed::of("Idle");
    let idle = rounds(&arena, &entries, None, &mut failed).await?;
    answer(&arena, &idle, &mut sheet);
    tell(&mut sheet, &arena, "Idle", &idle, None);
    let mut failed_busy = Failed::of(BUSY);
    let busy = arena.best_entries("latency", Store::Postgres);
    let rates = half_loads(&arena, &busy, &mut failed_busy).await?;
    let loaded = rounds(&arena, &busy, Some(&rates), &mut failed_busy).await?;
    tell(&mut sheet, &arena, BUSY, &loaded, Some(&rates));
    sheet.tables.push(who_plays(&arena.players, &entries));
    sheet.words.extend([failed, failed_busy].iter().filter_map(|failed| failed.words(&arena.players)));
    arena.keep(sheet)
}

const BUSY: &str = "At half of what each can sustain with these settings";

/// The goals, each by the ratio of what the table shows.
fn answer(arena: &Arena, idle: &Pools, sheet: &mut Sheet) {
    let goals = [
        (MIDDLE, Goal::StartMiddleAgainstRaw, Goal::StartMiddleAgainstPeer),
        (TAIL, Goal::StartTailAgainstRaw, Goal::StartTailAgainstPeer),
    ];
    let lines: Vec<Lines> = goals.iter().map(|(percent, ..)| idle.best_settings_at(*percent)).collect();
    let ours = |at: usize| lines[at].best_of(arena, OURS_APART, false);
    for (at, (_, against_raw, _)) in goals.iter().enumerate() {
        let raw = lines[at].best_of(arena, RAW, false);
        sheet.answer(*against_raw, "from another process", ratio_of(ours(at), raw));
    }
    for (at, (_, _, against_peer)) in goals.iter().enumerate() {
        let peer = lines[at].best_peer(arena, false, |_| true);
        let of = format!("from another process; {}", lines[at].named(arena, peer));
        sheet.answer(*against_peer, &of, ratio_of(ours(at), peer));
    }
}

/// Half of what each sustains with the settings that it is then probed with, in a short trial.
async fn half_loads(arena: &Arena, entries: &[(usize, Settings)], failed: &mut Failed) -> Outcome<Vec<usize>> {
    let mut rates = Vec::new();
    for entry in entries {
        let scenario = Scenario::SustainedForLatency { seconds: TRIAL_SECONDS };
        rates.push(arena.try_play(*entry, Store::Postgres, scenario, failed, half).await?.unwrap_or_default());
    }
    Ok(rates)
}

/// Half the pace of a trial. Who handles nothing in it has no load that could be halved.
fn half(trial: &Played) -> Outcome<usize> {
    let pace = each(count(&trial.done, "handled_in_time")?) / figure(&trial.done, "seconds")?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of jobs")]
    let half = (pace / 2.0) as usize;
    if half == 0 {
        return Err(format!("handled {pace:.1} jobs a second in a trial of {TRIAL_SECONDS} s").into());
    }
    Ok(half)
}

/// The times of all rounds.
async fn rounds(
    arena: &Arena, entries: &[(usize, Settings)], beside: Beside<'_>, failed: &mut Failed,
) -> Outcome<Pools> {
    let mut pools = Pools::new(entries);
    for round in 0..arena.extent.rounds {
        for (at, entry) in Arena::round(entries, round) {
            let usual = if entry.1 == Settings::Best { PROBES } else { PROBES_AS_IT_COMES };
            let probes = arena.extent.of(usual, 10);
            let background_per_second = beside.map_or(0, |rates| rates[at]);
            let scenario = Scenario::Latency { probes, background_per_second };
            let read = |played: &Played| waits(played, probes, beside.is_some());
            if let Some(times) = arena.try_play(entry, Store::Postgres, scenario, failed, read).await? {
                pools.add(at, times);
            }
        }
    }
    Ok(pools)
}

/// The times of one run, if all its jobs are accounted for.
fn waits(played: &Played, probes: usize, is_loaded: bool) -> Outcome<Vec<f64>> {
    let times = times(&played.done)?;
    let [handled, enqueued] = [count(&played.done, "background_handled")?, count(&played.done, "background_enqueued")?];
    let left = count_if_told(&played.done, "left")?.unwrap_or_default();
    if times.len() != probes || handled != enqueued || left != 0 {
        let found = format!("{} of {probes} probes, {handled} of {enqueued} others, {left} left", times.len());
        return Err(format!("all probes and all other jobs were to be started: {found}").into());
    }
    if is_loaded != (enqueued > 0) {
        return Err(format!("{enqueued} jobs came beside the probes").into());
    }
    Ok(times)
}

fn tell(sheet: &mut Sheet, arena: &Arena, title: &str, pools: &Pools, beside: Beside<'_>) {
    let mut table = pools.table(arena, beside);
    table.words = format!("{title}:");
    sheet.tables.push(table);
    sheet.plots.push(pools.plot(arena, &format!("From enqueue to start: {}", title.to_lowercase())));
}
