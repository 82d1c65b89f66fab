//! The goals: what is asked of Punctual's speed, each as one number with a bound.

use super::number::with_unit;
use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    // Results from before this goal was about the faster of two references have an answer for each of them.
    #[serde(alias = "drain-against-raw-in-large-batches")]
    DrainAgainstRaw,
    DrainAgainstPeerWithoutRecord,
    DrainAgainstPeerWithRecord,
    SustainedAgainstPeer,
    SustainedDepth,
    EnqueueOneCallerAgainstRaw,
    EnqueueManyCallersAgainstRaw,
    EnqueueBatchedAgainstRaw,
    EnqueueOneCallerAgainstPeer,
    EnqueueManyCallersAgainstPeer,
    EnqueueBatchedAgainstPeer,
    StartMiddleAgainstRaw,
    StartTailAgainstRaw,
    StartMiddleAgainstPeer,
    StartTailAgainstPeer,
    SlotsAgainstRaw,
    SlotsPerSecond,
    SlotClaimTail,
    ThousandSlotsTail,
    ThousandSlotsAgainstPeer,
    ManySlotsAgainstRaw,
    ManySlotsMissedHeartbeats,
    SqliteDrainAgainstRaw,
    SqliteDrainAgainstPeer,
    WalAgainstRaw,
    WalAgainstBareQueue,
    HistoryGrowth,
    ScheduleGrowth,
    DepthGrowth,
    PinnedClaimTail,
    PinnedAlarm,
    PinnedRecovery,
    IdleCore,
    IdleMemory,
    ReadyAfterStart,
    CronOrdinary,
    CronWorst,
    LimitedClaims,
    NotifiedFailures,
    HttpErrors,
    EnqueueToStart,
    SlotToStart,
}

/// Where the line is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

/// What a goal says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Of `P1` to `P12`; goals of a section's own have none.
    pub number: Option<u8>,
    pub words: &'static str,
    pub bound: Bound,
    /// `×` for a ratio.
    pub unit: &'static str,
    /// Behind the point.
    pub digits: u8,
}

/// All goals in the order of their numbers, and how each is said.
const ALL: [(Goal, Wanted); 42] = {
    use Bound::{AtLeast, AtMost, Below};
    use Goal as G;
    [
        (G::DrainAgainstRaw, ratio(1, "drain on PostgreSQL, against raw SQL", AtLeast(0.85))),
        (G::DrainAgainstPeerWithoutRecord, ratio(1, "drain, against the best peer that keeps no record", AtLeast(1.2))),
        (G::DrainAgainstPeerWithRecord, ratio(1, "drain, against the best peer that keeps one", AtLeast(2.5))),
        (G::SustainedAgainstPeer, ratio(2, "produce and consume for 60 s, against the best peer", AtLeast(1.2))),
        (G::SustainedDepth, ratio(2, "queue depth meanwhile, last quarter against the second", AtMost(1.1))),
        (G::EnqueueOneCallerAgainstRaw, ratio(3, "enqueue one by one, 1 caller, against raw SQL", AtLeast(0.8))),
        (G::EnqueueManyCallersAgainstRaw, ratio(3, "enqueue one by one, 16 callers, against raw SQL", AtLeast(0.8))),
        (G::EnqueueBatchedAgainstRaw, ratio(3, "enqueue in batches, against raw SQL", AtLeast(0.8))),
        (G::EnqueueOneCallerAgainstPeer, ratio(3, "enqueue one by one, 1 caller, against the best peer", AtLeast(2.0))),
        (
            G::EnqueueManyCallersAgainstPeer,
            ratio(3, "enqueue one by one, 16 callers, against the best peer", AtLeast(2.0)),
        ),
        (G::EnqueueBatchedAgainstPeer, ratio(3, "enqueue in batches, against the best peer", AtLeast(2.0))),
        (G::StartMiddleAgainstRaw, ratio(4, "enqueue to start, idle, p50 against raw SQL", AtMost(1.5))),
        (G::StartTailAgainstRaw, ratio(4, "enqueue to start, idle, p99 against raw SQL", AtMost(2.0))),
        (G::StartMiddleAgainstPeer, ratio(4, "enqueue to start, idle, p50 against the best peer", Below(1.0))),
        (G::StartTailAgainstPeer, ratio(4, "enqueue to start, idle, p99 against the best peer", Below(1.0))),
        (G::SlotsAgainstRaw, ratio(5, "slots fired, against raw SQL of the same work", AtLeast(0.8))),
        (G::SlotsPerSecond, in_unit(5, "slots fired, 1,000 due and 50 claimers", AtLeast(10_000.0), "/s", 0)),
        (G::SlotClaimTail, in_unit(5, "one such claim, p99", Below(100.0), "ms", 1)),
        (G::ThousandSlotsTail, in_unit(6, "1,000 schedules in one slot, p99 start after it", AtMost(100.0), "ms", 0)),
        (G::ThousandSlotsAgainstPeer, ratio(6, "the same, how much earlier than the best peer", AtLeast(7.0))),
        (G::ManySlotsAgainstRaw, ratio(7, "100,000 schedules in one slot, time against raw SQL", AtMost(1.3))),
        (G::ManySlotsMissedHeartbeats, in_unit(7, "heartbeats missed meanwhile", AtMost(0.0), "", 0)),
        (G::SqliteDrainAgainstRaw, ratio(8, "drain on SQLite, against raw SQL", AtLeast(0.5))),
        (G::SqliteDrainAgainstPeer, ratio(8, "drain on SQLite, against the best peer", AtLeast(10.0))),
        (G::WalAgainstRaw, ratio(9, "WAL bytes for a job, against raw SQL", AtMost(1.15))),
        (G::WalAgainstBareQueue, ratio(9, "WAL bytes for a job, against a queue that keeps nothing", AtMost(1.15))),
        (G::HistoryGrowth, ratio(10, "a long history, against none", AtLeast(0.8))),
        (G::ScheduleGrowth, ratio(10, "many schedules, against few", AtLeast(0.8))),
        (G::DepthGrowth, ratio(10, "a deep queue, against a short one", AtLeast(0.8))),
        (
            G::PinnedClaimTail,
            ratio(10, "p99 of a claim while a transaction pins dead rows, against none", AtMost(10.0)),
        ),
        (G::PinnedAlarm, in_unit(10, "alarms raised about it", AtLeast(1.0), "", 0)),
        (G::PinnedRecovery, in_unit(10, "back to normal after it", AtMost(60.0), "s", 1)),
        (G::IdleCore, in_unit(11, "idle with 100,000 schedules, share of a core", Below(1.0), "%", 2)),
        (G::IdleMemory, in_unit(11, "idle with 100,000 schedules, memory", Below(40.0), "MB", 1)),
        (G::ReadyAfterStart, in_unit(11, "ready after start, 100,000 schedules", AtMost(150.0), "ms", 0)),
        (G::CronOrdinary, in_unit(12, "next fire of an ordinary expression", Below(1.0), "µs", 2)),
        (G::CronWorst, in_unit(12, "next fire of the worst expression", Below(1_000.0), "µs", 1)),
        (G::LimitedClaims, own("claim + finish in batches with 105 limits, against none", AtLeast(0.5), "×", 2)),
        (G::NotifiedFailures, own("failures while a rule tells of them, against nobody told", AtLeast(0.95), "×", 2)),
        (G::HttpErrors, own("errors of the HTTP API at 2,000 requests a second", AtMost(0.0), "", 0)),
        (G::EnqueueToStart, own("enqueue to start with notification, p50", Below(5.0), "ms", 2)),
        (G::SlotToStart, own("slot to the start of its job, p99", Below(20.0), "ms", 2)),
    ]
};

const fn ratio(number: u8, words: &'static str, bound: Bound) -> Wanted {
    in_unit(number, words, bound, "×", 2)
}

const fn in_unit(number: u8, words: &'static str, bound: Bound, unit: &'static str, digits: u8) -> Wanted {
    Wanted { number: Some(number), words, bound, unit, digits }
}

const fn own(words: &'static str, bound: Bound, unit: &'static str, digits: u8) -> Wanted {
    Wanted { number: None, words, bound, unit, digits }
}

impl Goal {
    /// All of them, the numbered ones first.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(|(goal, _)| *goal)
    }

    /// What it says.
    pub fn wanted(self) -> Wanted {
        // The order of the table is that of the enum, which a test checks.
        ALL[self as usize].1
    }

    /// Whether it asks about the best of the peers, which is known only if all of them play.
    pub fn is_against_peers(self) -> bool {
        matches!(
            self,
            Self::DrainAgainstPeerWithoutRecord
                | Self::DrainAgainstPeerWithRecord
                | Self::SustainedAgainstPeer
                | Self::EnqueueOneCallerAgainstPeer
                | Self::EnqueueManyCallersAgainstPeer
                | Self::EnqueueBatchedAgainstPeer
                | Self::StartMiddleAgainstPeer
                | Self::StartTailAgainstPeer
                | Self::ThousandSlotsAgainstPeer
                | Self::SqliteDrainAgainstPeer
        )
    }
}

impl Wanted {
    /// `P1`, or that it is the section's own.
    pub fn name(&self) -> String {
        self.number.map_or_else(|| "own".to_owned(), |number| format!("P{number}"))
    }

    /// Whether what was measured is on the right side.
    pub fn is_met(&self, measured: f64) -> bool {
        match self.bound {
            Bound::AtLeast(bound) => measured >= bound,
            Bound::AtMost(bound) => measured <= bound,
            Bound::Below(bound) => measured < bound,
        }
    }

    /// A value as it is written.
    pub fn spelled(&self, measured: f64) -> String {
        with_unit(measured, self.digits, self.unit)
    }

    /// `≥ 0.85×`.
    pub fn bound_words(&self) -> String {
        let (sign, bound) = match self.bound {
            Bound::AtLeast(bound) => ("≥", bound),
            Bound::AtMost(bound) => ("≤", bound),
            Bound::Below(bound) => ("<", bound),
        };
        // As many digits as the bound itself has.
        let digits = if bound.fract() == 0.0 { 0 } else { self.digits };
        format!("{sign} {}", with_unit(bound, digits, self.unit))
    }
}
