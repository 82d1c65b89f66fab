//! For tests of programs that embed Punctual: a store of its own, and a clock that the test turns.
//!
//! Time stands still until the test moves it. Moving it goes from one due time to the next, fires what is due there and
//! runs the jobs that come of it, with the same code that a node runs. So a test can say: three days pass, and these jobs
//! ran.
//!
//! ```
//! # punctual::testing::block_on(async {
//! use punctual::{Context, testing::TestPunctual};
//! use std::time::Duration;
//!
//! let test = TestPunctual::new().await?;
//! test.task("report", |_: Context, (): ()| async { Ok("done") });
//! test.schedule("nightly").cron("0 2 * * *")?.task("report").input(&())?.save().await?;
//!
//! let ran = test.advance(Duration::from_secs(3 * 24 * 60 * 60)).await?;
//! let slots: Vec<String> = ran.iter().map(|run| run.slot_at.unwrap().to_string()).collect();
//! assert_eq!(slots, ["2026-03-01T02:00:00Z", "2026-03-02T02:00:00Z", "2026-03-03T02:00:00Z"]);
//! assert!(ran.iter().all(|run| run.task == "report" && run.completed()));
//! # Ok::<(), punctual::Error>(())
//! # }).unwrap();
//! ```

use crate::enqueue::signed;
use crate::{ErrorCode, JobId, JobView, Outcome, Punctual, Result, ScheduleId, Store, Target, Timestamp, Trigger};
use punctual_core::json::Json;
use punctual_core::store::{Clock, Lease, NewNode, StoreError};
use punctual_core::virtual_clock::VirtualClock;
use punctual_engine::clock::Uptime;
use punctual_engine::dispatch::{Desk, DeskOptions, RunningSet};
use punctual_engine::fire::fire_once;
use punctual_engine::flow::stop_flows_once;
use punctual_engine::lease::HeldLease;
use punctual_engine::offers::settle_offers_once;
use serde::de::DeserializeOwned;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How many jobs run at once.
const ROOM: usize = 8;

/// How many slots one pass decides.
const PAGE: usize = 100;

/// Punctual on a store of its own that goes away with it, and on a clock that begins at 2026-03-01T00:00:00Z and stands
/// still until the test turns it. It is a [`Punctual`], with everything that one can do.
#[derive(Debug)]
pub struct TestPunctual {
    punctual: Punctual,
    clock: Arc<VirtualClock>,
    _folder: TempDir,
}

impl Deref for TestPunctual {
    type Target = Punctual;
    fn deref(&self) -> &Punctual {
        &self.punctual
    }
}

/// One job that ran while the clock was turned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Which job.
    pub id: JobId,
    /// The task's name; for other targets their job type.
    pub task: String,
    /// The schedule that made it.
    pub schedule_id: Option<ScheduleId>,
    /// The slot it was made for.
    pub slot_at: Option<Timestamp>,
    /// What made it.
    pub trigger: Trigger,
    /// When it ran, by the test's clock.
    pub at: Timestamp,
    /// Its place in its chain of retries.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not complete.
    pub error_code: Option<ErrorCode>,
    /// The same in words.
    pub error: Option<String>,
    /// What it returned.
    pub output: Option<Json>,
}

impl Ran {
    /// Whether it did its work.
    pub fn completed(&self) -> bool {
        self.outcome == Outcome::Completed
    }

    /// What it returned, as a type of the program.
    pub fn output<O: DeserializeOwned>(&self) -> Result<O> {
        let output = self.output.clone().unwrap_or_else(Json::null);
        output.to().map_err(|error| crate::Error::Output { id: self.id, error: error.to_string() })
    }
}

impl TestPunctual {
    /// An empty store, at 2026-03-01T00:00:00Z.
    pub async fn new() -> Result<Self> {
        let no_folder = |error| StoreError::Unavailable(format!("a temporary folder cannot be made: {error}"));
        let folder = tempfile::tempdir().map_err(no_folder)?;
        let clock = Arc::new(VirtualClock::new());
        let mut builder = Punctual::builder(&format!("sqlite:{}", folder.path().join("test.db").display()));
        builder.store.sqlite.clock = Arc::<VirtualClock>::clone(&clock);
        Ok(Self { punctual: builder.open().await?, clock, _folder: folder })
    }

    /// What the clock shows.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets time pass, and runs what becomes due meanwhile, each at its own time; says what ran, in order.
    ///
    /// Retries whose wait is over within the time run too.
    pub async fn advance(&self, by: Duration) -> Result<Vec<Ran>> {
        let to = self.now().saturating_add(signed(by)).unwrap_or(Timestamp::MAX);
        self.advance_to(to).await
    }

    /// The same, until a time; one that has passed changes nothing.
    pub async fn advance_to(&self, to: Timestamp) -> Result<Vec<Ran>> {
        let mut worker = Worker::start(self).await?;
        let mut ran = worker.run_pending().await?;
        while let Some(due) = self.next_due().await?.filter(|due| *due <= to) {
            self.clock.set(due.max(self.now()));
            ran.extend(worker.run_pending().await?);
            if self.next_due().await?.is_some_and(|next| next <= due) {
                let stuck = "something is due and cannot be decided; look at the schedules' problems";
                return Err(StoreError::Internal(stuck.to_owned()).into());
            }
        }
        self.clock.set(to.max(self.now()));
        worker.leave().await?;
        Ok(ran)
    }

    /// Lets time pass while nobody works, as when the program was not running: nothing fires and nothing runs. What
    /// became due meanwhile is decided by the missed policies as soon as somebody works again.
    ///
    /// ```
    /// # punctual::testing::block_on(async {
    /// use punctual::{Context, Missed, testing::TestPunctual};
    /// use std::time::Duration;
    ///
    /// let test = TestPunctual::new().await?;
    /// test.task("tick", |_: Context, (): ()| async { Ok(()) });
    /// test.schedule("skips").cron("0 * * * *")?.task("tick").input(&())?.missed(Missed::SKIP).save().await?;
    /// test.sleep(Duration::from_secs(10 * 3600 + 1800));
    /// assert_eq!(test.run_pending().await?.len(), 0);              // ten slots were missed, and none is made up for
    /// assert_eq!(test.advance(Duration::from_secs(3600)).await?.len(), 1);
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn sleep(&self, by: Duration) {
        self.clock.advance(signed(by));
    }

    /// Runs everything that could run now, until nothing is left; the clock stands still.
    pub async fn run_pending(&self) -> Result<Vec<Ran>> {
        let mut worker = Worker::start(self).await?;
        let ran = worker.run_pending().await?;
        worker.leave().await?;
        Ok(ran)
    }

    /// How many jobs wait in a queue.
    pub async fn queued(&self, queue: &str) -> Result<usize> {
        Ok(self.store().queued_jobs(queue, None, usize::MAX).await?.len())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        let wait = self.store().next_due_in().await?;
        Ok(wait.map(|wait| self.now().saturating_add(wait).unwrap_or(Timestamp::MAX)))
    }
}

/// A node that lives while the clock is turned: the shipped passes, called one after the other.
struct Worker<'t> {
    test: &'t TestPunctual,
    store: Arc<dyn Store>,
    lease: Lease,
    desk: Desk,
}

impl<'t> Worker<'t> {
    async fn start(test: &'t TestPunctual) -> Result<Self> {
        let (store, executors) = (test.store(), test.executors());
        let node = NewNode { name: "test".to_owned(), offers: executors.job_types() };
        let lease = store.register_node(node).await?;
        let options = DeskOptions { room: ROOM, prefetch: 0, queues: Vec::new(), grace: Duration::from_secs(10) };
        // Nobody else is there to take over, however long the test thinks.
        let held = HeldLease::new(lease, Duration::MAX / 4, Duration::ZERO);
        let desk = Desk::new(test.store(), held, executors, options, Uptime::start(), RunningSet::default());
        settle_offers_once(&*store).await?;
        Ok(Self { test, store, lease, desk })
    }

    async fn leave(self) -> Result<()> {
        Ok(self.store.leave_if_leased(self.lease).await?)
    }

    async fn run_pending(&mut self) -> Result<Vec<Ran>> {
        let mut ran = Vec::new();
        loop {
            stop_flows_once(&*self.store).await?;
            let fired = fire_once(&*self.store, Some(self.lease.node_id), PAGE).await?;
            let claimed = self.desk.exchange(true).await?.claimed;
            if claimed == 0 && !fired.made_work() {
                return Ok(ran);
            }
            let jobs = self.desk.jobs();
            while self.desk.runs() > 0 {
                self.desk.next_end().await;
            }
            self.desk.exchange(false).await?;
            for id in jobs {
                ran.extend(ran_of(&self.test.job(id).await?));
            }
        }
    }
}

/// What is told of a job that has run.
fn ran_of(view: &JobView) -> Option<Ran> {
    let (job, run) = (&view.job, view.run()?);
    let task = match &job.spec.target {
        Target::Task(task) => task.name.clone(),
        other => other.job_type(),
    };
    Some(Ran {
        id: job.id,
        task,
        schedule_id: job.schedule_id,
        slot_at: job.slot_at,
        trigger: job.spec.trigger,
        at: run.started_at.unwrap_or(run.finished_at),
        attempt: job.attempt,
        outcome: run.outcome,
        error_code: run.error_code,
        error: run.error.clone(),
        output: run.output.clone(),
    })
}

/// Runs a future to its end on a small runtime, for tests and examples without one.
///
/// ```
/// assert_eq!(punctual::testing::block_on(async { 6 * 7 }), 42);
/// ```
#[expect(clippy::missing_panics_doc, reason = "a test that has no runtime has nothing better to do")]
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(future)
}
