//! Handlers in the host program: async functions from input to output.

use async_trait::async_trait;
use punctual_core::closing::Again;
use punctual_core::execute::{Executor, RunContext};
use punctual_core::json::Json;
use punctual_core::run::ErrorCode;
use punctual_core::store::FinishedRun;

/// Why a handler did not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskError {
    /// Trying again may help.
    Retryable(String),
    /// Trying again will not help.
    Fatal(String),
}

/// Makes an executor of an async function.
///
/// ```
/// use punctual_engine::targets::task::Handler;
/// let greet = Handler::new(|run| async move { Ok(Some(run.job.spec.input.clone())) });
/// # let _ = greet;
/// ```
pub struct Handler<F>(F);

impl<F, W> Handler<F>
where
    F: Fn(RunContext) -> W + Send + Sync,
    W: Future<Output = Result<Option<Json>, TaskError>> + Send,
{
    /// Wraps the function.
    pub fn new(work: F) -> Self {
        Self(work)
    }
}

#[async_trait]
impl<F, W> Executor for Handler<F>
where
    F: Fn(RunContext) -> W + Send + Sync,
    W: Future<Output = Result<Option<Json>, TaskError>> + Send,
{
    async fn run(&self, run: RunContext) -> FinishedRun {
        match (self.0)(run.clone()).await {
            Ok(output) => run.completed(output),
            Err(TaskError::Retryable(error)) => run.failed(ErrorCode::TargetError, error),
            Err(TaskError::Fatal(error)) => {
                FinishedRun { again: Again::Never, ..run.failed(ErrorCode::TargetError, error) }
            }
        }
    }
}
