//! The desk by itself: what it starts, gives back and reports, whatever becomes of its answers.

use crate::World;
use punctual_core::execute::StopReason;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{Cancelled, Heartbeat, NewNode, Store, StoreError};
use punctual_core::target::Target;
use punctual_engine::clock::Uptime;
use punctual_engine::dispatch::{Desk, DeskOptions, RunningSet};
use punctual_engine::lease::HeldLease;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Far longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// A desk on a store, its lease, and how often its task has run.
struct Office {
    world: World,
    desk: Desk,
    uptime: Uptime,
    lease: HeldLease,
    runs: Arc<AtomicUsize>,
}

impl Office {
    async fn open(length: Duration, room: usize) -> Self {
        let world = World::new();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&runs);
        let count = Handler::new(move |run: Context, _: serde_json::Value| {
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                run.stop.requested().await;
                Ok::<_, TaskError>(())
            }
        });
        let executors = Executors::default().with("task:wait", Arc::new(count));
        let store: Arc<dyn Store> = Arc::new(world.store.clone());
        let node = NewNode { name: "desk".to_owned(), offers: executors.job_types() };
        let uptime = Uptime::start();
        let lease = HeldLease::new(store.register_node(node).await.unwrap(), length, Duration::ZERO);
        let options = DeskOptions { room, prefetch: 2, queues: Vec::new(), grace: Duration::ZERO };
        let desk = Desk::new(store, lease.clone(), executors, options, uptime, RunningSet::default());
        Self { world, desk, uptime, lease, runs }
    }

    async fn enqueue(&self) -> JobId {
        self.world.store.enqueue_jobs(vec![NewJob::new(Target::task("wait"))]).await.unwrap()[0]
    }

    async fn state(&self, id: JobId) -> JobState {
        self.world.store.job(id).await.unwrap().unwrap().state()
    }

    async fn beat(&self) -> Heartbeat {
        self.lease.renew(&self.world.store, Duration::ZERO).await.unwrap()
    }
}

/// The answer to a claim was so long on its way that others may have taken over.
#[tokio::test]
async fn c09_nothing_is_started_when_the_lease_may_be_over() {
    let mut office = Office::open(Duration::from_nanos(3), 4).await;
    let job = office.enqueue().await;
    assert_eq!(office.desk.exchange(true).await, Err(StoreError::LostLease));
    assert_eq!(office.state(job).await, JobState::Running, "the store handed it out");
    tokio::task::yield_now().await;
    assert_eq!((office.runs.load(Ordering::SeqCst), office.desk.runs()), (0, 0));
}

/// The claim was never answered, and somebody cancelled the job meanwhile: it can neither run nor go back.
#[tokio::test]
async fn c07_a_cancelled_job_whose_claim_was_never_answered_is_closed() {
    let mut office = Office::open(LONG, 4).await;
    let job = office.enqueue().await;
    let request = punctual_core::store::ClaimRequest {
        lease: office.lease.lease,
        claim_id: punctual_core::id::ClaimId(uuid::Uuid::from_u128(1)),
        queues: Vec::new(),
        job_types: vec!["task:wait".to_owned()],
        limit: 1,
    };
    assert_eq!(office.world.store.claim_jobs_if_leased(request).await.unwrap().len(), 1);
    assert_eq!(office.world.store.cancel_job(job).await, Ok(Cancelled::Requested));
    for _ in 0..2 {
        let beat = office.beat().await;
        assert_eq!(office.desk.hear(&beat, office.uptime.now()), [], "there is nothing to give back");
    }
    assert_eq!(office.desk.exchange(false).await.unwrap().closed, 1);
    let run = office.world.store.run(job).await.unwrap().unwrap();
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
}

/// A job went back, and the answer that says so was lost: it must not be started here any more.
#[tokio::test]
async fn c08_a_desk_that_leaves_starts_nothing_that_may_have_gone_back() {
    let mut office = Office::open(LONG, 1).await;
    let (_first, second) = (office.enqueue().await, office.enqueue().await);
    office.desk.exchange(true).await.unwrap();
    let given = office.world.store.give_back_if_leased(office.lease.lease, vec![second]).await;
    assert_eq!(given, Ok(vec![second]));
    assert_eq!(office.desk.give_back_waiting().await, Ok(0), "it is not here to be given back again");
    office.desk.stop_all(StopReason::Shutdown);
    office.desk.next_end().await;
    office.desk.exchange(false).await.unwrap();
    assert_eq!((office.desk.runs(), office.state(second).await), (0, JobState::Queued));
    let beat = office.beat().await;
    office.desk.hear(&beat, office.uptime.now());
    assert!(office.desk.is_clear(), "the heartbeat tells that it is gone");
    assert_eq!(office.runs.load(Ordering::SeqCst), 1);
}

/// A job that waits at the desk for a free place and is cancelled never starts.
#[tokio::test]
async fn c07_a_job_that_was_claimed_ahead_and_is_cancelled_never_starts() {
    let mut office = Office::open(LONG, 1).await;
    let (first, second) = (office.enqueue().await, office.enqueue().await);
    assert_eq!(office.desk.exchange(true).await.unwrap().claimed, 2);
    assert_eq!(office.desk.runs(), 1);
    assert_eq!(office.world.store.cancel_job(second).await, Ok(Cancelled::Requested));
    assert_eq!(office.desk.give_back_waiting().await, Ok(0), "what is cancelled does not go back");
    let beat = office.beat().await;
    office.desk.hear(&beat, office.uptime.now());
    office.desk.exchange(false).await.unwrap();
    assert_eq!(office.state(second).await, JobState::Cancelled);
    office.desk.stop_all(StopReason::Shutdown);
    office.desk.next_end().await;
    office.desk.exchange(false).await.unwrap();
    assert!(office.desk.is_clear());
    assert_eq!((office.state(first).await, office.runs.load(Ordering::SeqCst)), (JobState::Completed, 1));
}
