//! The port behind every target: what runs a job for real, and how it is told to stop.

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

/// How a target says that its work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEnd {
    /// How.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// What it returned.
    pub output: Option<Json>,
    /// Where its log is.
    pub log_ref: Option<String>,
}

impl RunEnd {
    /// It did its work.
    pub fn completed(output: Option<Json>) -> Self {
        Self { outcome: Outcome::Completed, error_code: None, error: None, exit_code: None, output, log_ref: None }
    }

    /// It did not.
    pub fn failed(code: ErrorCode, error: impl Into<String>) -> Self {
        Self { outcome: Outcome::Failed, error_code: Some(code), error: Some(error.into()), ..Self::completed(None) }
    }

    /// It was stopped, for this reason.
    pub fn stopped(reason: StopReason) -> Self {
        match reason {
            StopReason::Cancelled => Self {
                outcome: Outcome::Cancelled,
                error_code: None,
                error: Some("it was cancelled while it ran".to_owned()),
                ..Self::completed(None)
            },
            StopReason::Timeout => Self::failed(ErrorCode::Timeout, "it ran longer than its timeout"),
            StopReason::Shutdown => Self::failed(ErrorCode::Interrupted, "the node was shut down before it was done"),
            StopReason::Fenced => Self::failed(ErrorCode::NodeLost, "the node could not renew its lease"),
        }
    }

    /// The report to the store.
    pub fn of(self, job: &Job) -> FinishedRun {
        FinishedRun {
            job_id: job.id,
            outcome: self.outcome,
            error_code: self.error_code,
            error: self.error,
            exit_code: self.exit_code,
            output: self.output,
            log_ref: self.log_ref,
        }
    }
}

/// What runs jobs of one type. It must come to its end soon after it is told to stop.
#[async_trait]
pub trait Executor: Send + Sync {
    /// Runs one job to its end.
    async fn run(&self, run: RunContext) -> RunEnd;
}
