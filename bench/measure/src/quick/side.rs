//! What both sides can do, and callers that do it at the same time.

use super::facts::Counts;
use crate::Outcome;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Jobs in one transaction, as a busy program makes and a busy node takes them.
pub(super) const BATCH: usize = 1000;

/// Jobs before those whose start counts, on both sides, so that what came before has settled.
pub(super) const WARM_UP: usize = 5;

/// How long something may go on, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) count: usize,
    pub(super) time: Duration,
}

/// What was done in which time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) count: usize,
    pub(super) took: Duration,
}

impl Done {
    pub(super) fn per_second(self) -> f64 {
        number(self.count) / self.took.as_secs_f64()
    }
}

/// What 50 claimers did: how many slots in which time, and how long each claim took that found some.
pub(super) struct Claims {
    pub(super) done: Done,
    pub(super) milliseconds: Vec<f64>,
}

/// How long jobs took from the call that makes one to its start.
pub(super) struct Starts {
    pub(super) milliseconds: Vec<f64>,
    /// Jobs that were made for that; some of them come before those that count.
    pub(super) made: usize,
}

/// One who plays: Punctual, or hand-written SQL. What it leaves in the queue it drains later.
#[async_trait]
pub(super) trait Side: Send {
    /// One job after the other.
    async fn enqueue_singly(&mut self, bound: Bound) -> Outcome<Done>;
    /// The same by several callers at once.
    async fn enqueue_by(&mut self, callers: usize, bound: Bound) -> Outcome<Done>;
    /// One batch after the other.
    async fn enqueue_batches(&mut self, batches: usize) -> Outcome<Done>;
    /// Everything that waits, which is so much.
    async fn drain(&mut self, jobs: usize) -> Outcome<Done>;
    /// Everything that is due, which is so much.
    async fn fire(&mut self, slots: usize) -> Outcome<Done>;
    /// The same by several at once, each a few at a time.
    async fn fire_by(&mut self, claimers: usize, slots: usize) -> Outcome<Claims>;
    /// Some jobs, each made while nobody has anything to do; all are finished.
    async fn enqueue_to_start(&mut self, bound: Bound) -> Outcome<Starts>;
}

/// What is looked up or done by SQL beside the sides, and never while one of them is measured.
#[async_trait]
pub(super) trait Ground: Send + Sync {
    /// Makes schedules that are due.
    async fn make_due_schedules(&self, count: usize) -> Outcome<()>;
    /// What the tables hold.
    async fn counts(&self) -> Outcome<Counts>;
    /// How long the write-ahead log is, where one can ask.
    async fn log_bytes(&self) -> Option<f64>;
    /// Puts the tables into the state in which every turn begins.
    async fn tidy(&self) -> Outcome<()>;
    /// Milliseconds there and back.
    async fn round_trip_ms(&self) -> Outcome<f64>;
    /// Transactions of one row each.
    async fn commits(&self, bound: Bound) -> Outcome<Done>;
    /// The settings of the very connections that are measured.
    async fn settings(&self) -> Outcome<BTreeMap<String, String>>;
    /// Checkpoints so far that could not wait for their time.
    async fn forced_checkpoints(&self) -> Option<i64>;
}

/// A count to divide by.
pub(super) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// A pause before a job, of a length that changes, in which whoever works goes idle.
pub(super) async fn pause(number: usize) {
    let varied = u64::try_from(37 * number % 70).unwrap_or_default();
    tokio::time::sleep(Duration::from_millis(25 + varied)).await;
}

/// Several callers at once, each doing one thing after the other until enough was done or the time is up.
pub(super) async fn by_many<F: Future<Output = Outcome<()>> + Send>(
    callers: usize, bound: Bound, one: impl Fn() -> F + Send + Sync + 'static,
) -> Outcome<Done> {
    let (one, taken) = (Arc::new(one), Arc::new(AtomicUsize::new(0)));
    let done = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (one, taken, done) = (Arc::clone(&one), Arc::clone(&taken), Arc::clone(&done));
        tasks.spawn(async move {
            while began.elapsed() < bound.time && taken.fetch_add(1, Ordering::Relaxed) < bound.count {
                one().await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(Done { count: done.load(Ordering::Relaxed), took: began.elapsed() })
}

/// Several claimers at once, until each of them finds nothing more. `one` says how many it claimed.
pub(super) async fn claim_by_many<F: Future<Output = Outcome<usize>> + Send>(
    claimers: usize, one: impl Fn() -> F + Send + Sync + 'static,
) -> Outcome<Claims> {
    let one = Arc::new(one);
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..claimers {
        let one = Arc::clone(&one);
        tasks.spawn(async move {
            let (mut count, mut times) = (0, Vec::new());
            loop {
                let asked = Instant::now();
                match one().await? {
                    0 => return Ok::<_, Box<dyn std::error::Error + Send + Sync>>((count, times)),
                    some => {
                        count += some;
                        times.push(milliseconds(asked.elapsed()));
                    }
                }
            }
        });
    }
    let mut claims = Claims { done: Done { count: 0, took: Duration::ZERO }, milliseconds: Vec::new() };
    while let Some(ended) = tasks.join_next().await {
        let (count, times) = ended??;
        claims.done.count += count;
        claims.milliseconds.extend(times);
    }
    claims.done.took = began.elapsed();
    Ok(claims)
}

/// Refuses a measurement that has done less or more than it should.
pub(super) fn expect(what: &str, found: usize, wanted: usize) -> Outcome<()> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found} of {wanted}; not every job is accounted for, so that no figure counts").into())
}
