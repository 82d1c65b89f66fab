//! A node whose jobs do nothing, as a program that embeds Punctual would have it.

use crate::Outcome;
use jiff::Timestamp;
use punctual_core::store::{Store, StoreResult};
use punctual_engine::node::{self, NodeEvent, NodeOptions, Signals};
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
