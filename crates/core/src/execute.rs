//! The port behind every target: what runs a job for real, and how it is told to stop.

use crate::id::JobId;
use crate::job::Job;
use crate::json::Json;
use crate::run::{ErrorCode, Outcome};
use crate::store::FinishedRun;
use async_trait::async_trait;
use jiff::Timestamp;
use std::sync::Arc;

/// Why a run is told to stop. The first reason stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody cancelled it.
    Cancelled,
    /// Its timeout has passed.
    Timeout,
    /// The node is shutting down and its grace is over.
    Shutdown,
    /// The node cannot renew its lease, so another one may take over: nothing may be done any more.
    Fenced,
}

/// How a run learns that it must stop.
#[async_trait]
pub trait Stop: Send + Sync {
    /// The reason, once there is one.
    fn reason(&self) -> Option<StopReason>;
    /// Waits for the reason.
    async fn requested(&self) -> StopReason;
}

/// What an executor is given.
#[derive(Clone)]
pub struct RunContext {
    /// The job.
    pub job: Arc<Job>,
    /// When its run began, by the store's clock.
    pub started_at: Timestamp,
    /// How it is told to stop.
    pub stop: Arc<dyn Stop>,
}

impl RunContext {
    /// The work was done.
    pub fn completed(&self, output: Option<Json>) -> FinishedRun {
        FinishedRun { output, ..FinishedRun::completed(self.job.id) }
    }

    /// It was not.
    pub fn failed(&self, code: ErrorCode, error: impl Into<String>) -> FinishedRun {
        FinishedRun::failed(self.job.id, code, error)
    }
}

/// How a run ends that was told to stop.
pub fn stopped(job_id: JobId, reason: StopReason) -> FinishedRun {
    match reason {
        StopReason::Cancelled => FinishedRun {
            outcome: Outcome::Cancelled,
            error: Some("it was cancelled while it ran".to_owned()),
            ..FinishedRun::completed(job_id)
        },
        StopReason::Timeout => FinishedRun::failed(job_id, ErrorCode::Timeout, "it ran longer than its timeout"),
        StopReason::Shutdown => {
            FinishedRun::failed(job_id, ErrorCode::Interrupted, "the node was shut down before it was done")
        }
        StopReason::Fenced => FinishedRun::failed(job_id, ErrorCode::NodeLost, "the node could not renew its lease"),
    }
}

/// What runs jobs of one type. It must come to its end soon after it is told to stop.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Runs one job to its end.
    async fn run(&self, run: RunContext) -> FinishedRun;
}
