//! Many schedules that are due in the same minute: how long after it the last of their jobs has started.

use super::answers::{count, count_if_told, times};
use super::arena::{Arena, Played};
use super::failed::Failed;
use super::player::{OURS, RAW, Settings, Store, who_plays};
use super::scenario::Scenario;
use super::verdicts::{Line, Lines};
use super::{Extent, ROUNDS};
use crate::figures::{median, percentile};
use crate::load::{Outcome, each};
use crate::report::{Goal, Sheet, spelled};

/// As many as an operator might have.
const MANY: usize = 1_000;
/// And as many as nobody should have at the same minute.
const VERY_MANY: usize = 100_000;
/// How often these are played at least: the ratio of two runs of some seconds each varies.
const ROUNDS_OF_VERY_MANY: usize = 5;

/// What the rounds gave.
struct Found {
    /// A percentile of the starts.
    starts: Lines,
    /// Schedules of which no job has started, the most of all rounds.
    missed: Lines,
    heartbeats_missed: Lines,
    leases_lost: Lines,
}

/// Prints and keeps the section.
pub async fn run(arena: Arena) -> Outcome<()> {
    let entries = arena.entries("slots", Store::Postgres);
    let few: Vec<_> = entries.iter().copied().filter(|(at, _)| arena.players[*at].name != RAW).collect();
    let many = arena.extent.of(MANY, 10);
    let mut failed = Failed::of("p99, ms");
    let Found { starts, missed, .. } = rounds(&arena, &few, (many, 99), arena.extent.rounds, &mut failed).await?;
    let mut sheet =
        Sheet::new("peers-slots", "Schedules that are due at once, beside the peers", &arena.extent.command("slots"));
    sheet.say(format!(
        "{} cron schedules are due at the same full minute; measured is what one in a hundred of their jobs exceeds, from \
         the minute to the first line of the handler. Who has missed some of them has no figure.",
        spelled(each(many), 0)
    ));
    let ours = starts.best_of(&arena, OURS, false);
    sheet.answer(Goal::ThousandSlotsTail, "", ours.map_or(f64::NAN, |line| median(&line.values)));
    let peer = starts.best_peer(&arena, false, |_| true);
    let earlier = 1.0 / starts.ours_against(&arena, peer, false);
    sheet.answer(Goal::ThousandSlotsAgainstPeer, &starts.named(&arena, peer), earlier);
    sheet.tables.push(starts.table(&arena, "p99, ms", 0, &[("schedules missed, at most", 0, &missed)]));
    let title = format!("{} schedules due at once: p99 of the starts", spelled(each(many), 0));
    sheet.plots.push(starts.plot(&arena, &title, "ms", 0));
    all_at_once(&arena, &entries, &mut sheet).await?;
    sheet.tables.push(who_plays(&arena.players, &entries));
    sheet.words.extend(failed.words(&arena.players));
    arena.keep(sheet)
}

/// The same with very many, until the last one has ended, against raw SQL that fires and works through as many.
async fn all_at_once(arena: &Arena, entries: &[(usize, Settings)], sheet: &mut Sheet) -> Outcome<()> {
    let ours_and_raw =
        |(at, settings): &(usize, Settings)| !arena.players[*at].is_peer() && *settings == Settings::Best;
    let two: Vec<_> = entries.iter().copied().filter(ours_and_raw).collect();
    let very_many = arena.extent.of(VERY_MANY, 10);
    let often = rounds_of_very_many(&arena.extent);
    let found = rounds(arena, &two, (very_many, 100), often, &mut Failed::of("the last start")).await?;
    let (ours, raw) = (found.starts.best_of(arena, OURS, false), found.starts.best_of(arena, RAW, false));
    let within_rounds = found.starts.ours_against(arena, raw, false);
    sheet.answer(Goal::ManySlotsAgainstRaw, "", within_rounds);
    sheet.words.extend(ours.zip(raw).and_then(|(ours, raw)| disagreement(within_rounds, ours, raw)));
    let missed: f64 = found.heartbeats_missed.0.iter().flat_map(|line| &line.values).sum();
    sheet.answer(Goal::ManySlotsMissedHeartbeats, "", missed);
    let more = [("heartbeats missed", 0, &found.heartbeats_missed), ("leases lost", 0, &found.leases_lost)];
    let mut table = found.starts.table(arena, "ms until the last start", 0, &more);
    table.words = format!(
        "{} schedules due at once, until the last of their jobs has started, {often} rounds:",
        spelled(each(very_many), 0)
    );
    "Times are medians. Heartbeats and leases are those of all rounds; raw SQL has none.".clone_into(&mut table.note);
    sheet.tables.push(table);
    Ok(())
}

/// A trial is as short as was asked for.
fn rounds_of_very_many(extent: &Extent) -> usize {
    if extent.rounds < ROUNDS { extent.rounds } else { extent.rounds.max(ROUNDS_OF_VERY_MANY) }
}

/// What is said where the median of the rounds' ratios and the ratio of the medians in the table answer differently.
fn disagreement(within_rounds: f64, ours: &Line, raw: &Line) -> Option<String> {
    let wanted = Goal::ManySlotsAgainstRaw.wanted();
    let of_medians = median(&ours.values) / median(&raw.values);
    (wanted.is_met(within_rounds) != wanted.is_met(of_medians)).then(|| {
        format!(
            "With {} the median of the rounds' ratios, which answers the goal, is {}; the ratio of the medians in the \
             table is {}, which would answer it differently.",
            wanted.words,
            wanted.spelled(within_rounds),
            wanted.spelled(of_medians)
        )
    })
}

/// A percentile of so many schedules' starts in each round, and what went wrong meanwhile.
async fn rounds(
    arena: &Arena, entries: &[(usize, Settings)], (schedules, percent): (usize, usize), often: usize,
    failed: &mut Failed,
) -> Outcome<Found> {
    let empty = || Lines::new(entries);
    let mut found = Found { starts: empty(), missed: empty(), heartbeats_missed: empty(), leases_lost: empty() };
    for round in 0..often {
        for (at, entry) in Arena::round(entries, round) {
            let is_peer = arena.players[entry.0].is_peer();
            let read = |played: &Played| found.add(at, played, (schedules, percent), is_peer);
            arena.try_play(entry, Store::Postgres, Scenario::Slots { schedules }, failed, read).await?;
        }
    }
    found.settle();
    Ok(found)
}

impl Found {
    /// Adds a round. A peer may miss some, which is told; of ours every one must be accounted for.
    fn add(
        &mut self, at: usize, Played { done, .. }: &Played, (schedules, percent): (usize, usize), is_peer: bool,
    ) -> Outcome<()> {
        let (waits, missed) = (times(done)?, count(done, "missed")?);
        if waits.len() + missed != schedules {
            return Err(format!("{schedules} slots: {} started and {missed} missed", waits.len()).into());
        }
        let kept = if is_peer { [schedules, 0] } else { [count(done, "kept")?, count(done, "left")?] };
        if kept != [schedules, 0] || (missed != 0 && !is_peer) {
            return Err(format!("{schedules} slots were to run: missed {missed}, kept and left {kept:?}").into());
        }
        self.starts.add(at, percentile(&waits, percent));
        self.missed.add(at, each(missed));
        // Raw SQL has no lease, and peers do not tell.
        for (key, lines) in [("heartbeats_missed", &mut self.heartbeats_missed), ("leases_lost", &mut self.leases_lost)]
        {
            if let Some(number) = count_if_told(done, key)? {
                lines.add(at, each(number));
            }
        }
        Ok(())
    }

    /// From all rounds to what is shown: no percentile where a start is missing, because the missing ones would be the
    /// latest; and of what went wrong all there was.
    fn settle(&mut self) {
        for (starts, missed) in self.starts.0.iter_mut().zip(&mut self.missed.0) {
            let most = missed.values.iter().copied().fold(0.0, f64::max);
            if most > 0.0 {
                starts.values.clear();
            }
            if !missed.values.is_empty() {
                missed.values = vec![most];
            }
        }
        for line in self.heartbeats_missed.0.iter_mut().chain(&mut self.leases_lost.0) {
            if !line.values.is_empty() {
                line.values = vec![line.values.iter().sum()];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn found() -> Found {
        let empty = || Lines::new(&[(0, Settings::Best)]);
        Found { starts: empty(), missed: empty(), heartbeats_missed: empty(), leases_lost: empty() }
    }

    fn played(done: Value) -> Played {
        Played { done, wal_bytes: 0.0, commits: 0.0, dead_rows: 0.0, memory_mb: 0.0 }
    }

    fn line(values: &[f64]) -> Line {
        Line { player: 0, settings: Settings::Best, values: values.to_vec() }
    }

    #[test]
    fn a_peer_that_misses_some_has_no_percentile() {
        let mut found = found();
        found.add(0, &played(json!({ "ms": [1.0, 2.0], "missed": 0 })), (2, 99), true).unwrap();
        found.add(0, &played(json!({ "ms": [1.0], "missed": 1 })), (2, 99), true).unwrap();
        found.settle();
        assert!(found.starts.0[0].values.is_empty());
        assert_eq!(found.missed.0[0].values, [1.0]);
        assert!(found.heartbeats_missed.0[0].values.is_empty(), "a peer tells none");
        found.add(0, &played(json!({ "ms": [1.0], "missed": 0 })), (2, 99), true).unwrap_err();
    }

    #[test]
    fn ours_must_have_run_every_slot_and_its_missed_heartbeats_add_up() {
        let mut found = found();
        let run = |beats: u64, left: u64| {
            let leases = 0;
            json!({ "ms": [3.0], "missed": 0, "kept": 1, "left": left, "heartbeats_missed": beats, "leases_lost": leases })
        };
        found.add(0, &played(run(1, 0)), (1, 100), false).unwrap();
        found.add(0, &played(run(2, 0)), (1, 100), false).unwrap();
        found.add(0, &played(run(0, 1)), (1, 100), false).unwrap_err();
        found.settle();
        assert_eq!((&*found.heartbeats_missed.0[0].values, &*found.leases_lost.0[0].values), (&[3.0][..], &[0.0][..]));
        assert_eq!(found.starts.0[0].values, [3.0, 3.0]);
    }

    #[test]
    fn two_answers_that_differ_are_both_told() {
        let (ours, raw) = (line(&[13.5, 20.0, 26.0]), line(&[10.0, 15.0, 25.0]));
        assert_eq!(disagreement(1.2, &line(&[12.0]), &line(&[10.0])), None);
        let words = disagreement(1.29, &ours, &raw).unwrap();
        assert!(words.contains("1.29×") && words.contains("1.33×"), "{words}");
    }

    #[test]
    fn a_whole_result_has_five_rounds_of_very_many() {
        let extent = |rounds| Extent { rounds, percent: 100, only: Vec::new() };
        assert_eq!([1, 3, 7].map(|rounds| rounds_of_very_many(&extent(rounds))), [1, 5, 7]);
    }
}
