//! One run, from the claim to its end.

use crate::permit;
use crate::phase::Phase;
use crate::scribe::Scribe;
use crate::secrets::{RunSecrets, SecretRules};
use crate::stop::StopHandle;
use punctual_core::execute::{Executor, RunContext, StopReason, stopped};
use punctual_core::id::JobId;
use punctual_core::job::{Job, Timeout};
use punctual_core::run::ErrorCode;
use punctual_core::secret::Secrets;
use punctual_core::store::{ClaimedJob, FinishedRun};
use punctual_core::target::Target;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What a node can run: an executor for each job type, and the secrets they may read.
#[derive(Clone, Default)]
pub struct Executors {
    by_type: BTreeMap<String, Arc<dyn Executor>>,
    /// The handlers once more, by their names alone: those are looked up without putting a job type together.
    handlers: BTreeMap<String, Arc<dyn Executor>>,
    secrets: Arc<SecretRules>,
}

impl Executors {
    /// Adds one; a later one of the same type takes the place of the earlier one.
    #[must_use]
    pub fn with(mut self, job_type: impl Into<String>, executor: Arc<dyn Executor>) -> Self {
        let job_type = job_type.into();
        if let Some(name) = job_type.strip_prefix("task:") {
            self.handlers.insert(name.to_owned(), Arc::clone(&executor));
        }
        self.by_type.insert(job_type, executor);
        self
    }

    /// Hands out secrets by these rules.
    #[must_use]
    pub fn with_secrets(mut self, rules: SecretRules) -> Self {
        self.secrets = Arc::new(rules);
        self
    }

    /// The job types, as the node offers them.
    pub fn job_types(&self) -> Vec<String> {
        self.by_type.keys().cloned().collect()
    }

    fn of(&self, job: &Job) -> Option<&Arc<dyn Executor>> {
        match &job.spec.target {
            Target::Task(task) => self.handlers.get(&task.name),
            target => self.by_type.get(&target.job_type()),
        }
    }
}

impl std::fmt::Debug for Executors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.by_type.keys()).finish()
    }
}

/// Runs one claimed job to its end, which comes soon after it is told to stop, whatever the executor does. What it
/// told is stored before its end is known.
pub async fn run_job(
    executors: &Executors, claimed: ClaimedJob, stop: StopHandle, grace: Duration, scribe: &Scribe,
) -> FinishedRun {
    let _phase = Phase::enter("run");
    let job = claimed.job;
    let Some(executor) = executors.of(&job) else {
        let job_type = job.spec.target.job_type();
        return FinishedRun::failed(job.id, ErrorCode::NoExecutor, format!("this node cannot run `{job_type}`"));
    };
    if let Err(refused) = permit::ask(scribe.store(), &job).await {
        return refused;
    }
    let log = scribe.open(Arc::clone(&job), claimed.started_at);
    let secrets = Arc::new(RunSecrets::new(Arc::clone(&executors.secrets)));
    let run = RunContext {
        job: Arc::clone(&job),
        started_at: claimed.started_at,
        stop: stop.signal(),
        grace,
        reports: secrets.keeping_from(log.clone()),
        secrets: Arc::clone(&secrets) as Arc<dyn Secrets>,
    };
    let work = catch_panics(job.id, executor.run(run));
    let end = tokio::select! {
        // Which of two that are ready is heard must not be left to chance.
        biased;
        end = work_until_stopped(job.id, work, &stop, grace + executor.last_moment()) => end,
        () = tell_timeout(&job, &stop) => stopped(job.id, StopReason::Timeout),
    };
    let told = stop.reason();
    if told != Some(StopReason::Fenced) {
        log.close().await;
    }
    judge(secrets.redact(end), told)
}

/// Lets the executor work; once it is told to stop it has the grace to come to its end, and is dropped then.
async fn work_until_stopped(
    job_id: JobId, work: impl Future<Output = FinishedRun>, stop: &StopHandle, grace: Duration,
) -> FinishedRun {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        end = &mut work => end,
        reason = stop.told() => match reason {
            // No time is left: somebody else may be at it already.
            StopReason::Fenced => stopped(job_id, reason),
            reason => timeout(grace, work).await.unwrap_or_else(|_| stopped(job_id, reason)),
        }
    }
}

/// Tells the run to stop when its time is over; never ends by itself, so that the stop takes its ordinary way.
async fn tell_timeout(job: &Job, stop: &StopHandle) {
    if let Timeout::After(limit) = job.spec.timeout {
        sleep(Duration::try_from(limit).unwrap_or(Duration::MAX)).await;
        stop.stop(StopReason::Timeout);
    }
    std::future::pending::<()>().await;
}

/// What was stopped is recorded as stopped, whatever the executor made of it, unless it had completed all the same.
fn judge(end: FinishedRun, told: Option<StopReason>) -> FinishedRun {
    match told {
        Some(reason) if end.outcome != punctual_core::run::Outcome::Completed => {
            let stopped = stopped(end.job_id, reason);
            FinishedRun {
                exit_code: end.exit_code,
                output: end.output,
                log_ref: end.log_ref,
                usage: end.usage,
                ..stopped
            }
        }
        _ => end,
    }
}

/// A handler that panics fails its own run and nothing else.
async fn catch_panics(job_id: JobId, work: impl Future<Output = FinishedRun>) -> FinishedRun {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
        match polled {
            Ok(state) => state,
            Err(panic) => {
                let words = format!("the handler panicked: {}", words_of_panic(panic.as_ref()));
                std::task::Poll::Ready(FinishedRun::failed(job_id, ErrorCode::TargetError, words))
            }
        }
    })
    .await
}

/// What a panic said.
pub(crate) fn words_of_panic(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
