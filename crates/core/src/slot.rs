//! The slot ledger: what was decided about each slot, and why.

use crate::id::{JobId, NodeId, ScheduleId};
use crate::words::words;
use jiff::Timestamp;
use std::collections::BTreeMap;

words! {
    /// What became of a slot.
    pub enum Decision as "decision" {
        /// A job was made for it.
        Fired = "fired",
        /// No job, by a rule.
        Skipped = "skipped",
        /// No job, because the time for it had passed.
        Missed = "missed",
    }
}

words! {
    /// Why a slot was decided as it was.
    pub enum Reason as "reason" {
        /// It fired when it was due.
        OnTime = "on_time",
        /// It fired late, to make up for slots that passed meanwhile.
        Catchup = "catchup",
        /// It fired because somebody asked for the past range it stands in.
        Backfill = "backfill",
        /// Skipped: a run of the schedule was still alive and `overlap` forbids a second one.
        Overlap = "overlap",
        /// Skipped: `max_concurrent_runs` were alive.
        MaxConcurrentRuns = "max_concurrent_runs",
        /// Skipped: the schedule it depends on had not succeeded within the window.
        Dependency = "dependency",
        /// Skipped: its calendar excludes this time.
        Calendar = "calendar",
        /// Skipped: the schedule was paused.
        Paused = "paused",
        /// Skipped: somebody moved the fire to another time.
        Rescheduled = "rescheduled",
        /// Missed: later than the policy's window when it was looked at.
        TooLate = "too_late",
        /// Missed: a later slot was due as well and stands for it.
        Superseded = "superseded",
        /// Missed: more slots were due than the policy's limit.
        OverLimit = "over_limit",
        /// Skipped: the schedule was edited and this is no longer one of its slots.
        Edited = "edited",
    }
}

/// How many slots did not run, by why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotRun(BTreeMap<Reason, u64>);

impl NotRun {
    /// Counts some more.
    pub fn add(&mut self, reason: Reason, slots: u64) {
        *self.0.entry(reason).or_default() += slots;
    }

    /// Counts what others have counted.
    pub fn add_all(&mut self, others: &Self) {
        others.iter().for_each(|(reason, slots)| self.add(reason, slots));
    }

    /// Each reason that there was, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        self.0.iter().map(|(reason, slots)| (*reason, *slots))
    }
}

impl FromIterator<(Reason, u64)> for NotRun {
    fn from_iter<I: IntoIterator<Item = (Reason, u64)>>(counted: I) -> Self {
        let mut all = Self::default();
        counted.into_iter().for_each(|(reason, slots)| all.add(reason, slots));
        all
    }
}

/// One row of the ledger: a slot, or a range of slots that were decided together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRow {
    /// Whose slot.
    pub schedule_id: ScheduleId,
    /// The slot, or the first one of the range.
    pub slot_at: Timestamp,
    /// The last slot of the range; equal to `slot_at` for a single one.
    pub through: Timestamp,
    /// How many slots the row stands for.
    pub count: u64,
    /// What was decided.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The job that was made for it.
    pub job_id: Option<JobId>,
    /// When it was decided, by the store's clock.
    pub decided_at: Timestamp,
    /// Which node decided it.
    pub node: Option<NodeId>,
    /// How long after it was due.
    pub late_ms: i64,
    /// The version of the schedule that was in force.
    pub schedule_version: i64,
    /// The reason in more words, where there is more to say: which holiday, whose pause.
    pub note: Option<String>,
}

impl SlotRow {
    /// Rows in the order of a list, the latest slot first, and no more than so many.
    pub fn latest(mut rows: Vec<Self>, limit: usize) -> Vec<Self> {
        rows.sort_unstable_by_key(|row| std::cmp::Reverse(row.slot_at));
        rows.truncate(limit);
        rows
    }
}
