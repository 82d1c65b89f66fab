//! Handlers in the host program: typed functions from input to output, with what they need to be good citizens.

use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::closing::Again;
use punctual_core::execute::{Executor, RunContext, StopReason};
use punctual_core::json::{JSON_MAX_BYTES, Json};
use punctual_core::records::{LogStream, check_step};
use punctual_core::run::ErrorCode;
use punctual_core::store::{FinishedRun, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

/// How long a step waits before it asks an unreachable store again to remember it.
const SETBACK: Duration = Duration::from_millis(250);

/// Why a handler did not do its work. Any error becomes a retryable one with `?`.
///
/// ```
/// use punctual_engine::targets::task::TaskError;
/// fn parse(text: &str) -> Result<u16, TaskError> {
///     Ok(text.parse()?)
/// }
/// assert!(matches!(parse("x"), Err(TaskError::Retryable(why)) if why.contains("invalid digit")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// Trying again may help: as the job's retry policy says.
    Retryable(String),
    /// Trying again may help, but not before so much time has passed.
    RetryAfter(SignedDuration, String),
    /// Trying again will not help.
    Fatal(String),
    /// It is not ready yet: later, and nothing is charged.
    Snooze(SignedDuration, String),
}

impl<E: std::error::Error> From<E> for TaskError {
    fn from(error: E) -> Self {
        let mut words = error.to_string();
        let mut cause = error.source();
        while let Some(below) = cause {
            words.push_str(": ");
            words.push_str(&below.to_string());
            cause = below.source();
        }
        Self::Retryable(words)
    }
}

/// What a handler is given beside its input: the run it is part of (see [`RunContext`]), and steps.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    run: RunContext,
    steps: Mutex<BTreeSet<String>>,
}

impl Deref for Context {
    type Target = RunContext;
    fn deref(&self) -> &RunContext {
        &self.0.run
    }
}

impl Context {
    /// The context of a run.
    pub fn new(run: RunContext) -> Self {
        Self(Arc::new(Inner { run, steps: Mutex::default() }))
    }

    /// Adds a line to the run's log, or several.
    pub fn log(&self, text: impl AsRef<str>) {
        self.0.run.log(LogStream::Stdout, text);
    }

    /// The same, for what went wrong.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.0.run.log(LogStream::Stderr, text);
    }

    /// Why the run is to stop, once it is: cancelled, too long, or the node goes. Whoever loops looks here.
    pub fn is_stopped(&self) -> Option<StopReason> {
        self.stop.reason()
    }

    /// Waits until the run is to stop.
    pub async fn stopped(&self) -> StopReason {
        self.stop.requested().await
    }

    /// Keeps a file with the run.
    pub async fn artifact(&self, name: &str, contents: Vec<u8>) -> Result<(), TaskError> {
        Ok(self.reports.add_artifact(name, contents).await?)
    }

    /// Does a part of the work once for the whole chain of retries: what it returned is remembered, and a later
    /// attempt gets that instead of doing it again. An error is not remembered.
    ///
    /// Each step of a handler has a name of its own. A node that dies after the work was done and before it was
    /// remembered has the work done again, so that what must never happen twice also needs a key of its own at the
    /// other side; the job's `root_job_id` and the step's name make a good one.
    ///
    /// ```
    /// use punctual_engine::targets::task::{Context, Handler, TaskError};
    /// let order = Handler::new(|ctx: Context, order: u64| async move {
    ///     let payment = ctx.step("charge", || async move { Ok::<_, TaskError>(format!("payment of {order}")) }).await?;
    ///     ctx.log(format!("paid: {payment}"));
    ///     Ok::<_, TaskError>(payment)
    /// });
    /// # let _ = order;
    /// ```
    pub async fn step<T, E, W>(&self, name: &str, work: impl FnOnce() -> W) -> Result<T, TaskError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<TaskError>,
        W: Future<Output = Result<T, E>>,
    {
        check_step(name).map_err(|error| TaskError::Fatal(error.to_string()))?;
        if !self.0.steps.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned()) {
            let words = format!("the step `{name}` was used twice in one run; give each step a name of its own");
            return Err(TaskError::Fatal(words));
        }
        if let Some(remembered) = self.reports.remembered_step(name).await? {
            return read_step(name, &remembered);
        }
        let value = work().await.map_err(Into::into)?;
        let told = Json::from_value("step", &value).map_err(|error| TaskError::Fatal(error.to_string()))?;
        let kept = self.remember(name, &told).await?;
        if kept == told { Ok(value) } else { read_step(name, &kept) }
    }

    /// The work is done: it is worth some patience to have it remembered.
    async fn remember(&self, name: &str, value: &Json) -> Result<Json, TaskError> {
        loop {
            match self.reports.remember_step(name, value.clone()).await {
                Err(StoreError::Unavailable(_) | StoreError::Full(_)) if self.is_stopped().is_none() => {
                    tokio::time::sleep(SETBACK).await;
                }
                kept => return Ok(kept?),
            }
        }
    }
}

fn read_step<T: DeserializeOwned>(name: &str, remembered: &Json) -> Result<T, TaskError> {
    let odd = |error| format!("what the step `{name}` remembers is not what this handler expects: {error}");
    remembered.to().map_err(|error| TaskError::Fatal(odd(error)))
}

/// Makes an executor of a function.
///
/// An async handler must not block its thread: a node's heartbeats run on the same ones. For work that computes or
/// waits without `await` there is [`Handler::blocking`].
///
/// ```
/// use punctual_engine::targets::task::{Context, Handler, TaskError};
/// use punctual_engine::work::Executors;
/// use std::sync::Arc;
///
/// #[derive(serde::Deserialize)]
/// struct Digest { user: String }
///
/// let digest = Handler::new(|ctx: Context, input: Digest| async move {
///     ctx.progress(50, "half way");
///     if input.user.is_empty() {
///         return Err(TaskError::Fatal("there is nobody without a name".to_owned()));
///     }
///     Ok(input.user.len())
/// });
/// let executors = Executors::default().with("task:digest", Arc::new(digest));
/// # let _ = executors;
/// ```
pub struct Handler<F, I>(F, PhantomData<fn(I)>);

impl<F, I, O, E, W> Handler<F, I>
where
    F: Fn(Context, I) -> W + Send + Sync,
    I: DeserializeOwned + Send,
    O: Serialize + Send + 'static,
    E: Into<TaskError> + Send + 'static,
    W: Future<Output = Result<O, E>> + Send + 'static,
{
    /// Wraps an async function.
    pub fn new(work: F) -> Self {
        Self(work, PhantomData)
    }
}

/// Makes an executor of a function that blocks; each run has a thread of its own.
pub struct BlockingHandler<F, I>(Arc<F>, PhantomData<fn(I)>);

impl<I> Handler<(), I> {
    /// Wraps a function that computes, or waits without `await`. Nobody can end it from outside: it looks at
    /// [`Context::is_stopped`] from time to time, or goes on after its run was recorded as stopped.
    ///
    /// ```
    /// use punctual_engine::targets::task::{Context, Handler, TaskError};
    /// let sum = Handler::blocking(|ctx: Context, up_to: u64| {
    ///     let numbers = (0..up_to).take_while(|_| ctx.is_stopped().is_none());
    ///     Ok::<_, TaskError>(numbers.sum::<u64>())
    /// });
    /// # let _ = sum;
    /// ```
    pub fn blocking<F, O, E>(work: F) -> BlockingHandler<F, I>
    where
        F: Fn(Context, I) -> Result<O, E> + Send + Sync + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        E: Into<TaskError> + Send + 'static,
    {
        BlockingHandler(Arc::new(work), PhantomData)
    }
}

#[async_trait]
impl<F, I, O, E, W> Executor for Handler<F, I>
where
    F: Fn(Context, I) -> W + Send + Sync,
    I: DeserializeOwned + Send,
    O: Serialize + Send + 'static,
    E: Into<TaskError> + Send + 'static,
    W: Future<Output = Result<O, E>> + Send + 'static,
{
    async fn run(&self, run: RunContext) -> FinishedRun {
        let input = match run.job.spec.input.to() {
            Ok(input) => input,
            Err(error) => return unfit(&run, &error),
        };
        // On the task of its place, whatever it does with it: one that blocks its thread is given up from outside.
        let context = Context::new(run);
        match (self.0)(context.clone(), input).await {
            Ok(output) => completed(&context, &output),
            Err(error) => failed(&context, error.into()),
        }
    }
}

#[async_trait]
impl<F, I, O, E> Executor for BlockingHandler<F, I>
where
    F: Fn(Context, I) -> Result<O, E> + Send + Sync + 'static,
    I: DeserializeOwned + Send + 'static,
    O: Serialize + Send + 'static,
    E: Into<TaskError> + Send + 'static,
{
    async fn run(&self, run: RunContext) -> FinishedRun {
        let input = match run.job.spec.input.to() {
            Ok(input) => input,
            Err(error) => return unfit(&run, &error),
        };
        let (work, context) = (Arc::clone(&self.0), Context::new(run.clone()));
        end_of(&run, tokio::task::spawn_blocking(move || work(context, input))).await
    }
}

fn unfit(run: &RunContext, error: &serde_json::Error) -> FinishedRun {
    let words = format!("the input is not what the handler expects: {error}");
    FinishedRun { again: Again::Never, ..run.failed(ErrorCode::TargetError, words) }
}

/// Whoever does not wait for a task any more has it ended.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn end_of<O: Serialize, E: Into<TaskError>>(run: &RunContext, work: JoinHandle<Result<O, E>>) -> FinishedRun {
    let _given_up = AbortOnDrop(work.abort_handle());
    match work.await {
        Ok(Ok(output)) => completed(run, &output),
        Ok(Err(error)) => failed(run, error.into()),
        Err(lost) => run.failed(ErrorCode::TargetError, words_of(lost)),
    }
}

fn completed<O: Serialize>(run: &RunContext, output: &O) -> FinishedRun {
    match Json::from_output(output) {
        Ok(output) if output.as_str() == "null" => run.completed(None),
        Ok(output) if output.as_str().len() > JSON_MAX_BYTES => {
            let words = format!("it returned {} bytes; at most {JSON_MAX_BYTES} are kept", output.as_str().len());
            run.failed(ErrorCode::OutputTooLarge, words)
        }
        Ok(output) => run.completed(Some(output)),
        Err(error) => run.failed(ErrorCode::BadOutput, format!("what it returned is no JSON: {error}")),
    }
}

fn failed(run: &RunContext, error: TaskError) -> FinishedRun {
    match error {
        TaskError::Retryable(error) => run.failed(ErrorCode::TargetError, error),
        TaskError::RetryAfter(wait, error) => {
            FinishedRun { again: Again::After(wait), ..run.failed(ErrorCode::TargetError, error) }
        }
        TaskError::Fatal(error) => FinishedRun { again: Again::Never, ..run.failed(ErrorCode::TargetError, error) },
        TaskError::Snooze(wait, why) => run.snoozed(wait, why),
    }
}

/// A handler that panics fails its own run and nothing else.
fn words_of(lost: JoinError) -> String {
    match lost.try_into_panic() {
        Ok(panic) => format!("the handler panicked: {}", crate::work::words_of_panic(panic.as_ref())),
        Err(_) => "the handler was given up".to_owned(),
    }
}
