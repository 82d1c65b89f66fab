//! The port behind every target: what runs a job for real, what it tells meanwhile, and how it is told to stop.

use crate::id::JobId;
use crate::invalid::Invalid;
use crate::job::Job;
use crate::json::Json;
use crate::records::{LogStream, Progress};
use crate::run::{ErrorCode, Outcome};
use crate::secret::{Secret, Secrets, Value};
use crate::store::{FinishedRun, StoreResult};
use crate::trace::TraceContext;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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

/// Where a run puts what it tells while it works. Nothing here waits for the store, other than the steps and artifacts
/// whose answer matters.
#[async_trait]
pub trait Reports: Send + Sync {
    /// Adds a line to the run's log, or several where the text has line breaks. What is too much is counted and left
    /// out, and the log says so.
    fn log(&self, stream: LogStream, text: &str);

    /// Says how far the run has come; only the latest is kept.
    fn progress(&self, progress: Progress);

    /// What an earlier attempt of the same chain remembered under this name.
    async fn remembered_step(&self, name: &str) -> StoreResult<Option<Json>>;

    /// Remembers a step for this and all later attempts of the chain; what was remembered first stands, and is the
    /// answer.
    async fn remember_step(&self, name: &str, value: Json) -> StoreResult<Json>;

    /// Keeps a file with the run; any node can read it afterwards.
    async fn add_artifact(&self, name: &str, contents: Vec<u8>) -> StoreResult<()>;
}

/// Reports that stay in memory: for a program that runs an executor by hand, without a store.
#[derive(Debug, Default)]
pub struct MemoryReports {
    lines: Mutex<Vec<(LogStream, String)>>,
    progress: Mutex<Option<Progress>>,
    steps: Mutex<BTreeMap<String, Json>>,
    artifacts: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryReports {
    /// The log so far.
    pub fn lines(&self) -> Vec<(LogStream, String)> {
        lock(&self.lines).clone()
    }

    /// The latest progress.
    pub fn latest_progress(&self) -> Option<Progress> {
        lock(&self.progress).clone()
    }

    /// The files that were kept.
    pub fn artifacts(&self) -> BTreeMap<String, Vec<u8>> {
        lock(&self.artifacts).clone()
    }
}

#[async_trait]
impl Reports for MemoryReports {
    fn log(&self, stream: LogStream, text: &str) {
        lock(&self.lines).extend(lines_of(text).map(|line| (stream, line.to_owned())));
    }

    fn progress(&self, progress: Progress) {
        *lock(&self.progress) = Some(progress);
    }

    async fn remembered_step(&self, name: &str) -> StoreResult<Option<Json>> {
        Ok(lock(&self.steps).get(name).cloned())
    }

    async fn remember_step(&self, name: &str, value: Json) -> StoreResult<Json> {
        Ok(lock(&self.steps).entry(name.to_owned()).or_insert(value).clone())
    }

    async fn add_artifact(&self, name: &str, contents: Vec<u8>) -> StoreResult<()> {
        lock(&self.artifacts).insert(name.to_owned(), contents);
        Ok(())
    }
}

/// The lines of a text that is told: a last line break does not begin another, and an empty text is an empty line.
pub fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line))
}

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// How long it may take to end once it is told to stop; it is dropped then.
    pub grace: Duration,
    /// Where it puts what it tells.
    pub reports: Arc<dyn Reports>,
    /// Where it gets its secrets.
    pub secrets: Arc<dyn Secrets>,
}

impl RunContext {
    /// The text of a value: itself, or the secret it refers to.
    pub fn text_of(&self, value: &Value) -> Result<Secret, Invalid> {
        match value {
            Value::Plain(text) => Ok(Secret::new(text.clone())),
            Value::Secret(reference) => self.secrets.reveal(reference),
        }
    }

    /// Adds a line to the run's log, or several: at once, without waiting for anything. Long lines are broken, the
    /// whole is capped, and what is left out is stated.
    pub fn log(&self, stream: LogStream, text: impl AsRef<str>) {
        self.reports.log(stream, text.as_ref());
    }

    /// Says how far the run has come.
    pub fn progress(&self, percent: u8, note: impl Into<String>) {
        self.reports.progress(Progress::new(percent, note));
    }

    /// Where the run stands in its trace: what a target that calls others passes on as `traceparent`.
    pub fn trace_context(&self) -> TraceContext {
        TraceContext::of_run(&self.job)
    }

    /// When the run is told to stop because it took too long, by the store's clock; `None` when it may run for ever.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.job.spec.timeout.deadline(self.started_at)
    }

    /// The work was done.
    pub fn completed(&self, output: Option<Json>) -> FinishedRun {
        FinishedRun { output, ..FinishedRun::completed(self.job.id) }
    }

    /// It was not.
    pub fn failed(&self, code: ErrorCode, error: impl Into<String>) -> FinishedRun {
        FinishedRun::failed(self.job.id, code, error)
    }

    /// It was not ready: it is tried again later, and nothing is charged.
    pub fn snoozed(&self, wait: SignedDuration, why: impl Into<String>) -> FinishedRun {
        FinishedRun::snoozed(self.job.id, wait, why)
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

    /// How much longer than the grace it may take, to make sure that nothing of it is left.
    fn last_moment(&self) -> Duration {
        Duration::ZERO
    }
}
