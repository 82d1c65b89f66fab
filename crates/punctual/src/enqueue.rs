//! Making jobs: one at a time or many at once, on their own or in a transaction of the program's.

use crate::handle::JobHandle;
use crate::join::Join;
use crate::{JobKeyMode, Punctual, Result, RetryPolicy, Target, Timestamp, Unique};
use jiff::SignedDuration;
use punctual_core::invalid::Invalid;
use punctual_core::job::{NewJob, Timeout};
use punctual_core::job_key::JobKey;
use punctual_core::json::Json;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A job that is not sent yet; begun by [`Punctual::enqueue`].
#[derive(Debug)]
#[must_use = "a job is made when it is sent"]
pub struct Enqueue {
    punctual: Punctual,
    // What is wrong with it is told when it is sent, so that its words can stand in one line.
    job: std::result::Result<NewJob, Invalid>,
}

impl Enqueue {
    pub(crate) fn new<I: Serialize + ?Sized>(punctual: Punctual, target: Target, input: &I) -> Self {
        let job = Json::from_value("input", input).map(|input| NewJob { input, ..NewJob::new(target) });
        Self { punctual, job }
    }

    /// A job that cannot be made, and why.
    pub(crate) fn refused(punctual: Punctual, why: Invalid) -> Self {
        Self { punctual, job: Err(why) }
    }

    fn set(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }

    /// Not before this time; a time that has passed means now.
    pub fn run_at(self, at: Timestamp) -> Self {
        self.set(|job| job.run_at = Some(at))
    }

    /// Its place in its queue: larger goes first, 0 unless it is said.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|job| job.priority = priority)
    }

    /// Its queue; `default` unless it is said. A queue is made by its first use.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.set(|job| job.queue = queue.into())
    }

    /// Only one job with this key waits at a time: this one takes the place of one that does (debounce).
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::JobState;
    /// let first = test.enqueue("reindex", &1).job_key("user:7").send().await?;
    /// let second = test.enqueue("reindex", &2).job_key("user:7").send().await?;
    /// assert_eq!(first.view().await?.state(), JobState::Cancelled);
    /// assert_eq!(second.view().await?.state(), JobState::Queued);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn job_key(self, key: impl Into<String>) -> Self {
        self.set(|job| job.job_key = Some(JobKey::new(key)))
    }

    /// The same, and what happens to a job that is there already.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use punctual::JobKeyMode::UnsafeDedupe;
    /// let first = test.enqueue("reindex", &1).job_key_mode("user:7", UnsafeDedupe).send().await?;
    /// let second = test.enqueue("reindex", &2).job_key_mode("user:7", UnsafeDedupe).send().await?;
    /// assert_eq!(first.id(), second.id());
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn job_key_mode(self, key: impl Into<String>, mode: JobKeyMode) -> Self {
        self.set(|job| job.job_key = Some(JobKey { key: key.into(), mode }))
    }

    /// Once in a period: an earlier job with the same task, input and queue, made within it, stands for this one, unless
    /// it failed or was cancelled. See [`Enqueue::unique`] for another key and for other states.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// use std::time::Duration;
    /// let first = test.enqueue("report", &1).unique_for(Duration::from_secs(3600)).send().await?;
    /// let again = test.enqueue("report", &1).unique_for(Duration::from_secs(3600)).send().await?;
    /// let other = test.enqueue("report", &2).unique_for(Duration::from_secs(3600)).send().await?;
    /// assert_eq!(first.id(), again.id());
    /// assert_ne!(first.id(), other.id());
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn unique_for(self, period: Duration) -> Self {
        self.unique(Unique::for_period(signed(period)))
    }

    /// The same, and what makes two jobs the same.
    pub fn unique(self, unique: Unique) -> Self {
        self.set(|job| job.unique = Some(unique))
    }

    /// Jobs with the same key run one at a time, in order, across all nodes.
    pub fn serial_key(self, key: impl Into<String>) -> Self {
        self.set(|job| job.serial_key = Some(key.into()))
    }

    /// How it is tried again; three attempts with growing waits unless it is said.
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.set(|job| job.retry = policy)
    }

    /// How long it may run; an hour unless it is said.
    pub fn timeout(self, limit: Duration) -> Self {
        self.set(|job| job.timeout = Timeout::After(signed(limit)))
    }

    /// Lets it run for ever.
    pub fn no_timeout(self) -> Self {
        self.set(|job| job.timeout = Timeout::Never)
    }

    /// Tags that limits count.
    pub fn tags<S: Into<String>>(self, tags: impl IntoIterator<Item = S>) -> Self {
        self.set(|job| job.tags = tags.into_iter().map(Into::into).collect())
    }

    /// The W3C trace context of whoever asks for it: its run stands in the same trace, and passes that on to its target.
    pub fn trace_context(self, traceparent: impl Into<String>) -> Self {
        self.set(|job| job.trace_context = Some(traceparent.into()))
    }

    /// Makes the job. When this returns, it is on the disk.
    pub async fn send(self) -> Result<JobHandle> {
        let id = self.punctual.store().enqueue_jobs(vec![self.job?]).await?;
        one(&self.punctual, id)
    }

    /// Makes the job and waits until it, or the last of its retries, has ended: its output, or why there is none.
    ///
    /// Dropping the future stops the waiting and not the job.
    pub async fn send_and_wait<O: DeserializeOwned>(self) -> Result<O> {
        self.send().await?.wait().await
    }

    /// Makes the job inside a transaction of the program's own: it is there if that commits, and was never there if it
    /// does not. See [`Join`] for the transactions that can be used; those of asynchronous drivers make a future of this,
    /// and `rusqlite`, which blocks, does not.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("app.db");
    /// let punctual = punctual::Punctual::open(&format!("sqlite:{}", path.display())).await?;
    /// let mut connection = rusqlite::Connection::open(&path)?;
    /// connection.execute_batch("CREATE TABLE users (name TEXT)")?;
    ///
    /// let mut tx = connection.transaction()?;
    /// tx.execute("INSERT INTO users VALUES ('ada')", [])?;
    /// let welcome = punctual.enqueue("welcome", "ada").send_in(&mut tx)?;
    /// tx.commit()?;                       // the user and the job, or neither
    /// punctual.wake();
    /// assert!(punctual.job(welcome.id()).await.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn send_in<T: Join>(self, transaction: &mut T) -> T::Sent<'_, JobHandle> {
        let Self { punctual, job } = self;
        let jobs = job.map(|job| vec![job]);
        transaction.join(punctual, jobs, one)
    }

    pub(crate) fn into_job(self) -> std::result::Result<NewJob, Invalid> {
        self.job
    }
}

/// Several jobs that are made together or not at all; begun by [`Punctual::enqueue_many`] or [`Punctual::batch`].
#[derive(Debug)]
#[must_use = "jobs are made when they are sent"]
pub struct Batch {
    punctual: Punctual,
    jobs: std::result::Result<Vec<NewJob>, Invalid>,
}

impl Batch {
    pub(crate) fn new(punctual: Punctual) -> Self {
        Self { punctual, jobs: Ok(Vec::new()) }
    }

    /// Adds a job.
    pub fn with(mut self, job: Enqueue) -> Self {
        self.jobs = self.jobs.and_then(|mut jobs| {
            jobs.push(job.into_job()?);
            Ok(jobs)
        });
        self
    }

    /// Makes the jobs, in their order.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// # let test = punctual::testing::TestPunctual::new().await?;
    /// let jobs = test.batch().with(test.enqueue("first", &1)).with(test.enqueue("second", &2)).send().await?;
    /// assert!(jobs[0].id() < jobs[1].id());
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn send(self) -> Result<Vec<JobHandle>> {
        let ids = self.punctual.store().enqueue_jobs(self.jobs?).await?;
        Ok(all(&self.punctual, ids))
    }

    /// Makes the jobs inside a transaction of the program's own; see [`Enqueue::send_in`].
    pub fn send_in<T: Join>(self, transaction: &mut T) -> T::Sent<'_, Vec<JobHandle>> {
        transaction.join(self.punctual, self.jobs, |punctual, ids| Ok(all(punctual, ids)))
    }
}

fn all(punctual: &Punctual, ids: Vec<crate::JobId>) -> Vec<JobHandle> {
    ids.into_iter().map(|id| punctual.handle(id)).collect()
}

fn one(punctual: &Punctual, ids: Vec<crate::JobId>) -> Result<JobHandle> {
    let lost = || punctual_core::store::StoreError::Internal("the store made no job".to_owned());
    Ok(punctual.handle(ids.into_iter().next().ok_or_else(lost)?))
}

/// A duration as the rules keep it; what is longer than they can say is as good as their longest.
pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
