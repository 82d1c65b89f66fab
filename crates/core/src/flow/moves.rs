//! Where a flow is, what happens to it, and what follows: the words between its rules and the stores.

use crate::id::JobId;
use crate::job::NewJob;
use crate::json::Json;
use crate::run::{ErrorCode, Outcome};
use crate::store::FinishedRun;
use std::collections::{BTreeMap, BTreeSet};

/// Where one step is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepState {
    /// How many steps before it have not ended.
    pub waits: u32,
    /// Whether it has begun.
    pub started: bool,
    /// Its latest job; a step that is run for many items has one for each of them.
    pub job_id: Option<JobId>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Why it did not complete. A step that was skipped without a code was skipped by its own condition.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// How far its items are.
    pub items: Option<Items>,
}

/// How far the items of a step are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Items {
    /// How many there are.
    pub total: u32,
    /// How many have begun.
    pub started: u32,
    /// How many have ended.
    pub ended: u32,
    /// How many of those did not complete.
    pub failed: u32,
}

/// Where a flow is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// Its steps, in the order of the definition.
    pub steps: Vec<StepState>,
    /// Why nothing more is started: `dependency_failed` after a failure, else what whoever stopped it said.
    pub stopping: Option<ErrorCode>,
}

/// The end of a step's last attempt, or of one item of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEnd {
    /// Which step.
    pub step: usize,
    /// Which item.
    pub item: Option<u32>,
    /// How.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// What it returned.
    pub output: Option<Json>,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The flow has begun, or begins again where an earlier attempt of it ended.
    Begun,
    /// A step, or one item of it, has ended for good. Its item has been stored.
    Ended(StepEnd),
    /// Somebody wants it to stop, or its time is over.
    Stop(ErrorCode),
}

/// What has been loaded from the store.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What steps returned.
    pub outputs: BTreeMap<usize, Option<Json>>,
    /// The first items of a step that have not begun, in order.
    pub items: BTreeMap<usize, Vec<(u32, Json)>>,
    /// What all items of a step returned, in order.
    pub item_outputs: BTreeMap<usize, Vec<Option<Json>>>,
}

/// What must be loaded before the answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// What a step returned.
    Output(usize),
    /// So many items of a step that have not begun.
    Items(usize, u32),
    /// What all items of a step returned.
    ItemOutputs(usize),
}

/// A job that is to be made for a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepJob {
    /// For which step.
    pub step: usize,
    /// For which item.
    pub item: Option<u32>,
    /// The job.
    pub spec: NewJob,
}

/// How the flow as a whole ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowEnd {
    /// How.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// What it returns.
    pub output: Option<Json>,
}

impl FlowEnd {
    /// The end of the flow's own job.
    pub fn into_report(self, job_id: JobId) -> FinishedRun {
        FinishedRun {
            outcome: self.outcome,
            error_code: self.error_code,
            error: self.error,
            output: self.output,
            ..FinishedRun::completed(job_id)
        }
    }
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Moves {
    /// The jobs that are to be made, in this order.
    pub jobs: Vec<StepJob>,
    /// Items that steps are run for, to be stored.
    pub items: Vec<(usize, Vec<Json>)>,
    /// Items whose job could not even be made, and why.
    pub unfit: Vec<(usize, u32, String)>,
    /// What steps returned that others ask for, to be stored.
    pub outputs: BTreeMap<usize, Json>,
    /// The steps whose state has changed.
    pub changed: BTreeSet<usize>,
    /// Whether all jobs of the flow that are alive are to be cancelled.
    pub cancel: bool,
    /// How the flow ended, if it did.
    pub end: Option<FlowEnd>,
}
