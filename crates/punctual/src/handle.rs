//! A job that was made: looking at it, stopping it, and waiting for what comes of it.

use crate::{Cancelled, Error, ErrorCode, JobId, JobView, Outcome, Punctual, Result, Run};
use punctual_core::store::Store;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::sleep;

/// When somebody who waits looks again by himself: soon at first, because much work is short, then rarely. The job may
/// end on another node, which need not tell.
const LOOKS: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(250)];

/// A job, and the way to what comes of it.
///
/// ```
/// # punctual::testing::block_on(async {
/// use punctual::{Context, testing::TestPunctual};
///
/// let test = TestPunctual::new().await?;
/// test.task("sum", |_: Context, numbers: Vec<u32>| async move { Ok(numbers.iter().sum::<u32>()) });
/// let job = test.enqueue("sum", &[1, 2, 3]).send().await?;
/// test.run_pending().await?;
/// assert_eq!(job.wait::<u32>().await?, 6);
/// # Ok::<(), punctual::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct JobHandle {
    punctual: Punctual,
    id: JobId,
}

impl JobHandle {
    pub(crate) fn new(punctual: Punctual, id: JobId) -> Self {
        Self { punctual, id }
    }

    /// Which job.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job with everything that is known about it now. Its retries are jobs of their own.
    pub async fn view(&self) -> Result<JobView> {
        self.punctual.job(self.id).await
    }

    /// Stops it: before it starts, or while it runs.
    pub async fn cancel(&self) -> Result<Cancelled> {
        self.punctual.cancel(self.id).await
    }

    /// Waits until the job, or the last of its retries, has ended, on whichever node: its output, or why there is none.
    ///
    /// Dropping the future stops the waiting and not the job. There is no time limit; put one around it if you need one.
    pub async fn wait<O: DeserializeOwned>(&self) -> Result<O> {
        let (id, run) = self.wait_for_end().await?;
        let code = run.error_code.unwrap_or(ErrorCode::Internal);
        match run.outcome {
            Outcome::Completed => {
                let output = run.output.unwrap_or_else(punctual_core::json::Json::null);
                output.to().map_err(|error| Error::Output { id, error: error.to_string() })
            }
            Outcome::Failed => Err(Error::Failed { id, code, error: run.error.unwrap_or_default() }),
            Outcome::Skipped | Outcome::Cancelled => Err(Error::Stopped { id, code }),
        }
    }

    /// Waits until the job, or the last of its retries, has ended: which job that was, and how it ended.
    pub async fn wait_for_end(&self) -> Result<(JobId, Run)> {
        let store = self.punctual.store();
        let mut ends = store.ends();
        let mut looks = LOOKS.iter().copied();
        loop {
            if let Some(end) = end_of(&*store, self.id).await? {
                return Ok(end);
            }
            tokio::select! {
                () = ends.next() => {}
                () = sleep(looks.next().unwrap_or(LOOKS[LOOKS.len() - 1])) => {}
            }
        }
    }
}

/// How the chain of a job ended, if it has.
async fn end_of(store: &dyn Store, id: JobId) -> Result<Option<(JobId, Run)>> {
    let last = store.chain_end(id).await?.ok_or(Error::NoSuchJob(id))?;
    Ok(last.run().filter(|run| run.is_final).map(|run| (last.job.id, run.clone())))
}
