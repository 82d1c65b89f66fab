//! Retention: what of the past may be forgotten, and how far a pass through it has come.

use crate::id::{JobId, ScheduleId};
use jiff::Timestamp;

/// What may be forgotten. Each rule keeps something: what no rule keeps goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Runs that ended before this, with their jobs, logs and artifacts.
    pub runs_before: Timestamp,
    /// The same for runs that failed, which are often wanted longer.
    pub failed_before: Timestamp,
    /// The latest so many jobs of each schedule stay, however old they are.
    pub keep_last: u32,
    /// Ledger rows of slots before this, and notices; never above a schedule's `fired_through`.
    pub slots_before: Timestamp,
    /// How many of each are looked at, so that one call stays short.
    pub limit: usize,
    /// Where to go on.
    pub from: PruneFrom,
}

impl Retention {
    /// Forgets everything that ended before an instant.
    pub fn before(at: Timestamp, limit: usize) -> Self {
        Self { runs_before: at, failed_before: at, keep_last: 0, slots_before: at, limit, from: PruneFrom::default() }
    }

    /// The later of the two horizons of runs: nothing that ended after it is looked at.
    pub fn runs_horizon(&self) -> Timestamp {
        self.runs_before.max(self.failed_before)
    }

    /// Graph runs that ended before this go, with the keys they were asked for by: as long as anything is known of a
    /// slot, nobody can run it anew by accident.
    pub fn graph_runs_before(&self) -> Timestamp {
        self.runs_before.min(self.failed_before).min(self.slots_before)
    }
}

/// How far a pass through history has come; what stays is not looked at again by its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneFrom {
    /// Runs up to this one have been looked at.
    pub job: Option<JobId>,
    /// The ledger of schedules before this one has been looked at, and this one's as far as it may go.
    pub schedule: Option<ScheduleId>,
}

/// What was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Jobs with their runs.
    pub jobs: usize,
    /// Ledger rows.
    pub slots: usize,
    /// Notices.
    pub notices: usize,
    /// Graph runs with their requests.
    pub graph_runs: usize,
    /// Where the next step goes on; `None` when all was looked at.
    pub next: Option<PruneFrom>,
}
