//! Claiming ahead: as many as the pace of the jobs makes worth while, and back with what would have to wait.

use crate::World;
use punctual_core::execute::StopReason;
use punctual_core::job::NewJob;
use punctual_core::readings::Readings;
use punctual_core::store::{NewNode, Store};
use punctual_core::target::Target;
use punctual_engine::clock::Uptime;
use punctual_engine::dispatch::{Desk, DeskOptions, RunningSet};
use punctual_engine::lease::HeldLease;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

const ROOM: usize = 4;
const PREFETCH: usize = 2;

/// A desk whose `quick` jobs end at once and whose `slow` ones when they are told to.
struct Office {
    world: World,
    desk: Desk,
    quick: Arc<AtomicUsize>,
}

impl Office {
    async fn open(prefetch: usize) -> Self {
        Self::with(prefetch, RunningSet::default()).await
    }

    async fn with(prefetch: usize, running: RunningSet) -> Self {
        let world = World::new();
        let quick = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&quick);
        let at_once = Handler::new(move |_: Context, _: serde_json::Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, TaskError>(()) }
        });
        let until_told = Handler::new(|run: Context, _: serde_json::Value| async move {
            run.stopped().await;
            Ok::<_, TaskError>(())
        });
        let executors =
            Executors::default().with("task:quick", Arc::new(at_once)).with("task:slow", Arc::new(until_told));
        let store: Arc<dyn Store> = Arc::new(world.store.clone());
        let node = NewNode { name: "desk".to_owned(), offers: executors.job_types() };
        let lease = store.register_node(node).await.unwrap();
        let lease = HeldLease::new(lease, Duration::from_secs(3600), Duration::ZERO);
        let options = DeskOptions { room: ROOM, prefetch, queues: Vec::new(), grace: Duration::from_secs(10) };
        let desk = Desk::new(store, lease, executors, options, Uptime::start(), running);
        Self { world, desk, quick }
    }

    async fn enqueue(&self, name: &str, count: usize) {
        let jobs = (0..count).map(|_| NewJob::new(Target::task(name))).collect();
        self.world.store.enqueue_jobs(jobs).await.unwrap();
    }

    /// One turn of a node: something ends, or a moment passes.
    async fn turn(&mut self) -> usize {
        let _nothing_ended = tokio::time::timeout(Duration::from_millis(20), self.desk.next_end()).await;
        self.desk.exchange(true).await.unwrap().claimed
    }

    async fn in_queue(&self) -> u64 {
        self.world.store.queue("default").await.unwrap().unwrap().depth.value
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quick_jobs_are_claimed_many_at_a_time() {
    let mut office = Office::open(PREFETCH).await;
    office.enqueue("quick", 3000).await;
    let mut most = 0;
    while office.quick.load(Ordering::SeqCst) < 3000 {
        most = most.max(office.turn().await);
    }
    assert!(most > 2 * (ROOM + PREFETCH), "at most {most} came with one exchange");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_told_to_claim_nothing_ahead_never_does() {
    let mut office = Office::open(0).await;
    office.enqueue("quick", 200).await;
    while office.quick.load(Ordering::SeqCst) < 200 {
        assert!(office.turn().await <= ROOM);
    }
}

/// Behind quick jobs come slow ones, and behind these others that were claimed with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_have_to_wait_for_slow_jobs_goes_back_to_its_place() {
    let mut office = Office::open(PREFETCH).await;
    office.enqueue("quick", 2000).await;
    office.enqueue("slow", ROOM).await;
    office.enqueue("quick", 300).await;
    while office.desk.runs() < ROOM || office.quick.load(Ordering::SeqCst) < 2000 {
        office.turn().await;
    }
    let here = u64::try_from(PREFETCH).unwrap();
    while office.in_queue().await < 300 - here {
        office.turn().await;
    }
    assert_eq!(office.in_queue().await, 300 - here, "as many stay as every node claims ahead");
    office.desk.stop_all(StopReason::Cancelled);
    while office.quick.load(Ordering::SeqCst) < 2300 {
        office.turn().await;
    }
    while !office.desk.is_clear() {
        office.turn().await;
    }
    assert_eq!(office.quick.load(Ordering::SeqCst), 2300, "none of them ran twice");
}

/// The clock says that the lease holds, and the store has said that it does not: nothing takes the places of what was stopped.
#[tokio::test]
async fn c09_whoever_is_fenced_starts_nothing_that_waits() {
    let running = RunningSet::default();
    let mut office = Office::with(PREFETCH, running.clone()).await;
    office.enqueue("slow", ROOM).await;
    office.enqueue("quick", PREFETCH).await;
    office.turn().await;
    assert_eq!((office.desk.runs(), office.in_queue().await), (ROOM, 0), "some run, and the others wait here");
    running.stop_all(StopReason::Fenced);
    while office.desk.runs() > 0 {
        office.desk.next_end().await;
    }
    office.desk.exchange(true).await.unwrap();
    assert_eq!((office.desk.runs(), office.quick.load(Ordering::SeqCst)), (0, 0), "nothing was started");
}

/// A run ends while the store keeps a claim waiting: its end is not reported then, and whoever waits for one hears of it.
#[tokio::test]
async fn an_end_during_an_exchange_is_heard_of_after_it() {
    let running = RunningSet::default();
    let mut office = Office::with(0, running.clone()).await;
    office.enqueue("slow", 1).await;
    office.turn().await;
    let job = *office.desk.jobs().first().unwrap();
    let other = rusqlite::Connection::open(office.world.store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut exchange = Box::pin(office.desk.exchange(true));
    let mut is_waiting = async || poll_fn(|cx| Poll::Ready(exchange.as_mut().poll(cx).is_pending())).await;
    assert!(is_waiting().await);
    running.stop(job, StopReason::Cancelled);
    while !running.is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(is_waiting().await, "it has heard of the end, and waits for its claim");
    other.execute_batch("ROLLBACK").unwrap();
    exchange.await.unwrap();
    assert!(!office.desk.is_clear(), "the end is not reported yet");
    office.desk.next_end().await;
    office.desk.exchange(true).await.unwrap();
    assert!(office.desk.is_clear());
}
