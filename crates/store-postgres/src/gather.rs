//! Callers that enqueue at the same time share a transaction, because most of what one job costs is its commit.

use crate::Shared;
use crate::queue::enqueue_plain;
use punctual_core::id::JobId;
use punctual_core::job::NewJob;
use punctual_core::store::{StoreError, StoreResult};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// How many transactions with few jobs are on their way at once. Whoever comes while so many are gathers with others;
/// who comes alone waits for nobody.
const WRITERS: usize = 2;

/// The most jobs of one caller that may be gathered with those of others; more are a batch already.
const FEW: usize = 16;

/// The most jobs of one transaction.
const BATCH_MAX: usize = 500;

/// Those who wait to be written, in the order they came.
#[derive(Debug)]
pub(crate) struct Gathering {
    waiting: Mutex<Vec<Waiting>>,
    writers: Arc<Semaphore>,
}

impl Default for Gathering {
    fn default() -> Self {
        Self { waiting: Mutex::default(), writers: Arc::new(Semaphore::new(WRITERS)) }
    }
}

/// One call, and where its answer goes.
#[derive(Debug)]
struct Waiting {
    jobs: Vec<NewJob>,
    answer: oneshot::Sender<StoreResult<Vec<JobId>>>,
}

impl Gathering {
    fn add(&self, jobs: Vec<NewJob>) -> oneshot::Receiver<StoreResult<Vec<JobId>>> {
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(Waiting { jobs, answer });
        answered
    }

    /// Takes the first of them, as many as go into one transaction. Who has gone away meanwhile is left out.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|call| !call.answer.is_closed());
        let mut jobs = 0;
        let fits = |call: &&Waiting| {
            jobs += call.jobs.len();
            jobs <= BATCH_MAX
        };
        let count = waiting.iter().take_while(fits).count();
        waiting.drain(..count).collect()
    }
}

/// Makes jobs that need nothing but to be written: at once, or together with those of others who came meanwhile.
pub(crate) async fn enqueue(shared: &Arc<Shared>, jobs: Vec<NewJob>) -> StoreResult<Vec<JobId>> {
    if jobs.len() > FEW {
        return enqueue_plain(shared, &jobs).await;
    }
    let writers = &shared.gathering.writers;
    if let Ok(_writer) = writers.try_acquire() {
        return enqueue_plain(shared, &jobs).await;
    }
    let mut answered = shared.gathering.add(jobs);
    tokio::select! {
        biased;
        answer = &mut answered => return told(answer),
        // Never closed. Who gets it writes for all who wait, by a task of its own: he may go away, they wait on.
        Ok(writer) = Arc::clone(writers).acquire_owned() => {
            tokio::spawn(write_together(Arc::clone(shared), shared.gathering.take(), writer));
        }
    }
    told(answered.await)
}

fn told(answer: Result<StoreResult<Vec<JobId>>, oneshot::error::RecvError>) -> StoreResult<Vec<JobId>> {
    let unknown = "the program is about to end, and it is not known whether the write took place";
    answer.unwrap_or_else(|_| Err(StoreError::Unavailable(unknown.to_owned())))
}

/// Writes for several callers in one transaction. What is refused is tried again for each by itself, so that nobody pays
/// for what another one sent; when it is not known what became of it, nobody's is tried again.
async fn write_together(shared: Arc<Shared>, mut calls: Vec<Waiting>, writer: OwnedSemaphorePermit) {
    let sizes: Vec<usize> = calls.iter().map(|call| call.jobs.len()).collect();
    let jobs: Vec<NewJob> = calls.iter_mut().flat_map(|call| std::mem::take(&mut call.jobs)).collect();
    let together = enqueue_plain(&shared, &jobs).await;
    let mut rest = jobs.as_slice();
    let mut made = together.as_deref().unwrap_or_default();
    for (call, size) in calls.into_iter().zip(sizes) {
        let (own, others) = rest.split_at(size);
        rest = others;
        let answer = match &together {
            Ok(_) => {
                let (ids, later) = made.split_at(size);
                made = later;
                Ok(ids.to_vec())
            }
            Err(StoreError::Unavailable(words)) => Err(StoreError::Unavailable(words.clone())),
            Err(_) => enqueue_plain(&shared, own).await,
        };
        // Who has gone away does not want to know.
        let _gone = call.answer.send(answer);
    }
    drop(writer);
}
