//! A node whose jobs do nothing, as a program that embeds Punctual would have it.

use crate::Outcome;
use jiff::Timestamp;
use punctual_core::meter::Meter;
use punctual_core::store::{Store, StoreResult};
use punctual_engine::node::{self, NodeEvent, NodeOptions, Signals};
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// How often the store is asked whether it has written down the last ends.
const LOOK: Duration = Duration::from_millis(1);

/// How many jobs were run.
#[derive(Debug)]
pub struct Counted {
    made: AtomicUsize,
    handled: AtomicUsize,
    /// The number that somebody waits for.
    wanted: AtomicUsize,
    reached: Notify,
    fenced: AtomicUsize,
}

impl Default for Counted {
    fn default() -> Self {
        let (handled, wanted) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        Self { made: AtomicUsize::new(0), handled, wanted, reached: Notify::new(), fenced: AtomicUsize::new(0) }
    }
}

impl Counted {
    /// One more.
    pub fn one(&self) {
        if self.handled.fetch_add(1, Ordering::SeqCst) + 1 >= self.wanted.load(Ordering::SeqCst) {
            self.reached.notify_one();
        }
    }

    /// Several more.
    pub fn add(&self, jobs: usize) {
        self.handled.fetch_add(jobs, Ordering::SeqCst);
    }

    /// So many more were made; says how many there are now.
    pub fn made(&self, jobs: usize) -> usize {
        self.made.fetch_add(jobs, Ordering::SeqCst) + jobs
    }

    /// How many were run so far.
    pub fn now(&self) -> usize {
        self.handled.load(Ordering::SeqCst)
    }

    /// How often the node lost its lease.
    pub fn fenced(&self) -> usize {
        self.fenced.load(Ordering::SeqCst)
    }

    /// Waits until there are so many.
    pub async fn reaches(&self, jobs: usize) {
        self.wanted.store(jobs, Ordering::SeqCst);
        while self.now() < jobs {
            self.reached.notified().await;
        }
        self.wanted.store(usize::MAX, Ordering::SeqCst);
    }
}

/// How many heartbeats did not come in their time.
#[derive(Debug)]
pub struct Beats {
    every: Duration,
    /// When the last one came, and how many did not until then.
    last: Mutex<(Option<Instant>, u32)>,
}

impl Beats {
    /// One is to come after each so long.
    pub fn each(every: Duration) -> Self {
        Self { every, last: Mutex::default() }
    }

    /// How many are missing so far, the one that should have come by now among them.
    pub fn missed(&self) -> u32 {
        let (last, missed) = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        missed + last.map_or(0, |last| missed_in(last.elapsed(), self.every))
    }
}

impl Meter for Beats {
    fn lease_renewed(&self, renewed: bool) {
        if renewed {
            let now = Instant::now();
            let (last, missed) = &mut *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *missed += last.map_or(0, |last| missed_in(now.duration_since(last), self.every));
            *last = Some(now);
        }
    }
}

/// How many beats should have come between two that came, or since one. One that is late by less than half of the time
/// between two is not missed.
fn missed_in(gap: Duration, every: Duration) -> u32 {
    let half = every / 2;
    let gaps = (gap + half).as_nanos().checked_div(every.as_nanos()).unwrap_or_default();
    u32::try_from(gaps).unwrap_or(u32::MAX).saturating_sub(1)
}

/// When the handler of a probe was called, by both clocks.
pub type Probe = (Instant, Timestamp);

/// A node that works until it is dropped: `noop` jobs are counted, and of `probe` jobs it is told when they start.
#[derive(Debug)]
pub struct Noop {
    /// The `noop` jobs.
    pub counted: Arc<Counted>,
    probes: UnboundedReceiver<Probe>,
    ready: Option<oneshot::Receiver<()>>,
    task: JoinHandle<StoreResult<()>>,
}

impl Noop {
    /// Comes to work.
    pub fn start(store: Arc<dyn Store>, options: NodeOptions) -> Self {
        let counted = Arc::new(Counted::default());
        let (tell, probes) = unbounded_channel();
        let executors = executors(&counted, tell);
        let never = || Box::pin(std::future::pending::<()>());
        let signals = Signals { gently: never(), now: never() };
        let (tell_ready, ready) = oneshot::channel();
        let (mut tell_ready, fences) = (Some(tell_ready), Arc::clone(&counted));
        let on_event = move |event| match event {
            // Nobody may be waiting for it.
            NodeEvent::Ready => drop(tell_ready.take().map(|ready| ready.send(()))),
            NodeEvent::Fenced => {
                fences.fenced.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        };
        let task = tokio::spawn(node::run_until(store, executors, options, signals, on_event));
        Self { counted, probes, ready: Some(ready), task }
    }

    /// Waits until it takes work.
    pub async fn is_ready(&mut self) -> Outcome<()> {
        match self.ready.take() {
            Some(ready) => ready.await.map_err(|_| "the node ended".into()),
            None => Ok(()),
        }
    }

    /// Waits for the start of a probe.
    pub async fn next_probe(&mut self) -> Outcome<Probe> {
        Ok(self.probes.recv().await.ok_or("the node ended")?)
    }

    /// Ends, and waits until nothing of it is at work any more.
    pub async fn stops(mut self) {
        self.task.abort();
        let _aborted = (&mut self.task).await;
    }

    /// Waits until the ends of all jobs that were run are stored.
    pub async fn settles(&self, store: &dyn Store) -> Outcome<()> {
        while is_at_work(store).await? {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

impl Drop for Noop {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn executors(counted: &Arc<Counted>, tell: UnboundedSender<Probe>) -> Executors {
    let count = Arc::clone(counted);
    let noop = Handler::new(move |_: Context, _: serde_json::Value| {
        count.one();
        async { Ok::<_, TaskError>(()) }
    });
    let probe = Handler::new(move |_: Context, _: serde_json::Value| {
        // Whoever measures may be gone already.
        let _gone = tell.send((Instant::now(), Timestamp::now()));
        async { Ok::<_, TaskError>(()) }
    });
    Executors::default().with("task:noop", Arc::new(noop)).with("task:probe", Arc::new(probe))
}

async fn is_at_work(store: &dyn Store) -> Outcome<bool> {
    let queue = store.queue("default").await?;
    Ok(queue.is_none_or(|queue| queue.depth.value > 0 || queue.running.value > 0))
}

#[cfg(test)]
mod tests {
    use super::{Beats, missed_in};
    use punctual_core::meter::Meter;
    use std::time::Duration;

    #[test]
    fn a_beat_is_missed_when_the_next_one_is_nearer() {
        let every = Duration::from_secs(1);
        let missed = |millis| missed_in(Duration::from_millis(millis), every);
        assert_eq!([0, 1000, 1499, 1500, 2499, 2500, 10_000].map(missed), [0, 0, 0, 1, 1, 2, 9]);
    }

    #[test]
    fn the_beat_that_should_have_come_by_now_counts_and_one_that_failed_does_not() {
        let beats = Beats::each(Duration::from_nanos(1));
        assert_eq!(beats.missed(), 0, "the first one is still to come");
        beats.lease_renewed(false);
        assert_eq!(beats.missed(), 0);
        beats.lease_renewed(true);
        std::thread::yield_now();
        assert!(beats.missed() > 0, "nanoseconds have passed");
    }
}
