//! What is asked of a store about flows.

use super::FlowDefinition;
use super::progress::StepState;
use crate::id::JobId;
use crate::json::Json;
use crate::name::Name;
use crate::run::{ErrorCode, Outcome};
use crate::store::StoreResult;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// A flow as it stands in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// Its name.
    pub name: Name,
    /// Rises with every change.
    pub version: i64,
    /// What was said about it.
    pub definition: FlowDefinition,
    /// Whose it is.
    pub owner: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// The flow that a job is a step of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowLink {
    /// The flow's own job.
    pub flow_id: JobId,
    /// Which step.
    pub step: String,
    /// Which item of it.
    pub item: Option<u32>,
}

/// A flow that runs or has run: its job, step by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowRun {
    /// The job.
    pub job_id: JobId,
    /// The definition as it was when it began.
    pub definition: FlowDefinition,
    /// Why nothing more is started.
    pub stopping: Option<ErrorCode>,
    /// When it began.
    pub started_at: Timestamp,
    /// When its time is over.
    pub deadline: Option<Timestamp>,
    /// Its steps, in the order of the definition.
    pub steps: Vec<FlowStep>,
}

/// One step of a flow that runs or has run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowStep {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub state: StepState,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What it returned, if a later step asks for it.
    pub output: Option<Json>,
}

/// One item that a step is run for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowItem {
    /// Its number, from zero.
    pub item: u32,
    /// What it is.
    pub value: Json,
    /// Its latest job.
    pub job_id: Option<JobId>,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

/// What one call of `advance_flows` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowsAdvanced {
    /// Flows that were stopped because somebody asked for it.
    pub stopped: usize,
    /// Flows whose time was over.
    pub expired: usize,
    /// When the time of the next one is over.
    pub next_in: Option<SignedDuration>,
}

/// Flows: their definitions, and how far their runs are.
#[async_trait]
pub trait Flows: Send + Sync {
    /// Stores a flow under a name, in place of an earlier version of it. Refused: definitions that could never run, a
    /// version that is not the stored one (zero: there must be none), the name of a flow of another owner.
    async fn save_flow(
        &self, name: Name, definition: FlowDefinition, owner: Option<String>, if_version: Option<i64>,
    ) -> StoreResult<Flow>;

    /// One flow.
    async fn flow(&self, name: &str) -> StoreResult<Option<Flow>>;

    /// Flows in order of name, after a name; of one owner, or of all.
    async fn flows(&self, owner: Option<&str>, after: Option<&str>, limit: usize) -> StoreResult<Vec<Flow>>;

    /// Forgets a flow; what runs goes on. Refused while a schedule needs it.
    async fn delete_flow(&self, name: &str) -> StoreResult<()>;

    /// The flow that a job is, step by step; `None` when it is none or has not begun.
    async fn flow_run(&self, id: JobId) -> StoreResult<Option<FlowRun>>;

    /// The items of a step, in order, after an item.
    async fn flow_items(&self, id: JobId, step: usize, after: Option<u32>, limit: usize) -> StoreResult<Vec<FlowItem>>;

    /// The flow that a job is a step of.
    async fn flow_link(&self, id: JobId) -> StoreResult<Option<FlowLink>>;

    /// Stops the flows that somebody wants to stop or whose time is over, up to so many.
    async fn advance_flows(&self, limit: usize) -> StoreResult<FlowsAdvanced>;
}
