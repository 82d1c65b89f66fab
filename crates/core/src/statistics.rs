//! Statistics of one schedule: how late, how long, how often well, and on which node (D12).
//!
//! The stores hand over samples, and the sums are done here, so that both say the same.

use crate::id::{JobId, NodeId};
use crate::run::{Outcome, Trigger};
use crate::schedule::Schedule;
use crate::slot::{Decision, Reason};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// The most runs, and the most rows of the slot ledger, that are looked at: the latest ones.
pub const SAMPLES_MAX: usize = 10_000;

/// The windows for which the success rate is told, as far as they fit into what was asked for.
const WINDOWS: [SignedDuration; 4] = [
    SignedDuration::from_hours(1),
    SignedDuration::from_hours(24),
    SignedDuration::from_hours(24 * 7),
    SignedDuration::from_hours(24 * 30),
];

/// A run of a schedule that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSample {
    /// Which.
    pub job_id: JobId,
    /// For which slot.
    pub slot_at: Option<Timestamp>,
    /// What made it.
    pub trigger: Trigger,
    /// When the job was made.
    pub created_at: Timestamp,
    /// When it began; `None` when it never did.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
    /// How.
    pub outcome: Outcome,
    /// Whether no retry follows.
    pub is_final: bool,
    /// Who ran it.
    pub node_id: Option<NodeId>,
}

/// What was decided about slots, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotTally {
    /// What.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// Of how many slots, ranges counted in full.
    pub slots: u64,
}

/// What a store knows of a schedule since an instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleSamples {
    /// Jobs made since then that have ended, latest made first.
    pub runs: Vec<RunSample>,
    /// The slots since then, in the order of the words.
    pub slots: Vec<SlotTally>,
    /// Whether there were more than [`SAMPLES_MAX`] of either.
    pub more: bool,
}

impl ScheduleSamples {
    /// What was read, one more than is looked at where there was more; each tally with the number of its rows.
    pub fn of(mut runs: Vec<RunSample>, tallies: Vec<(u64, SlotTally)>) -> Self {
        let rows: u64 = tallies.iter().map(|(rows, _)| rows).sum();
        let more = runs.len().max(usize::try_from(rows).unwrap_or(usize::MAX)) > SAMPLES_MAX;
        runs.truncate(SAMPLES_MAX);
        Self { runs, slots: tallies.into_iter().map(|(_, tally)| tally).collect(), more }
    }
}

/// How some lengths of time are spread. Each is one that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// Half of them are no longer.
    pub p50: SignedDuration,
    /// 95 of 100 are no longer.
    pub p95: SignedDuration,
    /// None is longer.
    pub max: SignedDuration,
    /// How many there were.
    pub count: usize,
}

impl Spread {
    /// The spread of what was measured; nothing of nothing.
    pub fn of(lengths: impl IntoIterator<Item = SignedDuration>) -> Option<Self> {
        let mut sorted: Vec<SignedDuration> = lengths.into_iter().collect();
        sorted.sort_unstable();
        // The nearest rank: the smallest one that so many of a hundred are no longer than.
        let rank = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(Self { p50: rank(50)?, p95: rank(95)?, max: rank(100)?, count: sorted.len() })
    }
}

/// How work ended within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// How long the window is; it ends now.
    pub window: SignedDuration,
    /// Chains of attempts that came to a good end.
    pub completed: u64,
    /// Chains that failed for good.
    pub failed: u64,
}

impl Success {
    /// The share of good ends, in tenths of a percent; `None` when nothing ended.
    pub fn per_mille(self) -> Option<u64> {
        (self.completed * 1000).checked_div(self.completed + self.failed)
    }
}

/// What a node did for a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShare {
    /// Which.
    pub node_id: NodeId,
    /// How many runs it claimed.
    pub runs: u64,
    /// When it claimed the last of them.
    pub last_claimed_at: Timestamp,
}

/// The statistics of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleStatistics {
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// How many runs ended in which way, retries among them.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// How work ended, in windows up to the one that was asked for.
    pub success: Vec<Success>,
    /// From when a slot was due until its first run began.
    pub lateness: Option<Spread>,
    /// From when a job was made until a node had claimed it; without retries.
    pub claim_latency: Option<Spread>,
    /// From the beginning of a run to its end.
    pub duration: Option<Spread>,
    /// Slots by what was decided about them.
    pub slots: Vec<SlotTally>,
    /// The nodes that ran it, those with most runs first.
    pub nodes: Vec<NodeShare>,
    /// Whether only the latest [`SAMPLES_MAX`] were looked at.
    pub more: bool,
}

impl ScheduleStatistics {
    /// Sums up what a store knows.
    pub fn of(schedule: &Schedule, samples: ScheduleSamples, since: Timestamp, now: Timestamp) -> Self {
        let runs = &samples.runs;
        let mut outcomes = BTreeMap::new();
        for run in runs {
            *outcomes.entry(run.outcome).or_default() += 1;
        }
        let started = || runs.iter().filter_map(|run| run.started_at.map(|at| (run, at)));
        Self {
            since,
            until: now,
            outcomes,
            success: success(runs, since, now),
            lateness: Spread::of(started().filter_map(|(run, at)| lateness(schedule, run, at))),
            // A retry waits on purpose.
            claim_latency: Spread::of(
                started()
                    .filter(|(run, _)| run.trigger != Trigger::Retry)
                    .map(|(run, at)| at.duration_since(run.created_at)),
            ),
            duration: Spread::of(started().map(|(run, at)| run.finished_at.duration_since(at))),
            nodes: shares(runs),
            slots: samples.slots,
            more: samples.more,
        }
    }
}

/// How late a slot's own run began. A backfill is late on purpose, and a retry is not the slot's fault.
fn lateness(schedule: &Schedule, run: &RunSample, started_at: Timestamp) -> Option<SignedDuration> {
    let slot = run.slot_at.filter(|_| matches!(run.trigger, Trigger::Schedule | Trigger::Catchup))?;
    let due = schedule.slots().map_or(slot, |slots| slots.due_at(slot));
    Some(started_at.duration_since(due).max(SignedDuration::ZERO))
}

fn success(runs: &[RunSample], since: Timestamp, now: Timestamp) -> Vec<Success> {
    let whole = now.duration_since(since);
    let mut windows: Vec<SignedDuration> = WINDOWS.into_iter().filter(|window| *window < whole).collect();
    windows.push(whole);
    let ended = |window: SignedDuration, outcome: Outcome| {
        let of_it =
            |run: &&RunSample| run.is_final && run.outcome == outcome && now.duration_since(run.finished_at) <= window;
        runs.iter().filter(of_it).count() as u64
    };
    let count = |window| Success {
        window,
        completed: ended(window, Outcome::Completed),
        failed: ended(window, Outcome::Failed),
    };
    windows.into_iter().map(count).collect()
}

fn shares(runs: &[RunSample]) -> Vec<NodeShare> {
    let mut nodes: BTreeMap<NodeId, NodeShare> = BTreeMap::new();
    for (node_id, at) in runs.iter().filter_map(|run| run.node_id.zip(run.started_at)) {
        let share = nodes.entry(node_id).or_insert(NodeShare { node_id, runs: 0, last_claimed_at: at });
        share.runs += 1;
        share.last_claimed_at = share.last_claimed_at.max(at);
    }
    let mut nodes: Vec<NodeShare> = nodes.into_values().collect();
    nodes.sort_by_key(|share| (std::cmp::Reverse(share.runs), share.node_id));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d12_a_spread_is_of_what_was_measured() {
        let ms = SignedDuration::from_millis;
        let spread = |lengths: &[i64]| Spread::of(lengths.iter().map(|length| ms(*length)));
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[7]), Some(Spread { p50: ms(7), p95: ms(7), max: ms(7), count: 1 }));
        assert_eq!(spread(&[3, 1, 2, 4]), Some(Spread { p50: ms(2), p95: ms(4), max: ms(4), count: 4 }));
        let hundred: Vec<i64> = (1..=100).rev().collect();
        assert_eq!(spread(&hundred), Some(Spread { p50: ms(50), p95: ms(95), max: ms(100), count: 100 }));
    }

    #[test]
    fn d12_a_rate_of_nothing_is_none() {
        let success = |completed, failed| Success { window: SignedDuration::ZERO, completed, failed }.per_mille();
        assert_eq!((success(0, 0), success(1, 2), success(5, 0)), (None, Some(333), Some(1000)));
    }
}
