//! What a desk holds against what the store believes it holds: answers that were lost, heartbeats that come late.

use crate::faulty::{Fault, FaultyStore};
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::json::Json;
use punctual_core::store::{Heartbeat, Lease, NewNode, Store};
use punctual_core::target::Target;
use punctual_engine::clock::Uptime;
use punctual_engine::dispatch::{Desk, DeskOptions, RunningSet};
use punctual_engine::lease::HeldLease;
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::steps::claim_request;
use std::sync::Arc;
use std::time::Duration;

/// Far longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// A desk on a store that can lose answers, and the store itself.
pub struct World {
    /// The store.
    pub real: Arc<SqliteStore>,
    /// What the desk takes for it.
    pub faulty: Arc<FaultyStore>,
    lease: Lease,
    /// The desk.
    pub desk: Desk,
    uptime: Uptime,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::with(4, 0).await
    }

    /// A desk with so many places, which claims so many jobs ahead at least.
    pub async fn with(room: usize, prefetch: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = Arc::new(SqliteStore::open(&folder.path().join("a.db"), SqliteOptions::default()).unwrap());
        let faulty = FaultyStore::new(Arc::clone(&real));
        let executors = Executors::default().with(
            "task:work",
            Arc::new(Handler::new(|_: Context, bytes: serde_json::Value| async move {
                // Nothing, unless it is asked for so much.
                let bytes = bytes.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
                Ok::<_, TaskError>(bytes.map(|bytes| "x".repeat(bytes)))
            })),
        );
        let lease = real.register_node(NewNode { name: "n".into(), offers: executors.job_types() }).await.unwrap();
        let options = DeskOptions { room, prefetch, queues: Vec::new(), grace: Duration::ZERO };
        let uptime = Uptime::start();
        let store = Arc::clone(&faulty) as Arc<dyn Store>;
        let desk = Desk::new(
            store,
            HeldLease::new(lease, LONG, Duration::ZERO),
            executors,
            options,
            uptime,
            RunningSet::default(),
        );
        Self { real, faulty, lease, desk, uptime, _folder: folder }
    }

    async fn enqueue(&self) -> JobId {
        self.enqueue_many(1).await[0]
    }

    /// Jobs that end at once.
    pub async fn enqueue_many(&self, count: usize) -> Vec<JobId> {
        self.real.enqueue_jobs(vec![NewJob::new(Target::task("work")); count]).await.unwrap()
    }

    /// Jobs that end at once, each with a megabyte to tell.
    pub async fn enqueue_large(&self, count: usize) {
        let input = Json::parse("input", "1000000").unwrap();
        let job = NewJob { input, ..NewJob::new(Target::task("work")) };
        self.real.enqueue_jobs(vec![job; count]).await.unwrap();
    }

    /// The store hands out jobs to this node, and the desk does not hear of it; says how many.
    pub async fn claim_unseen(&self, limit: usize) -> usize {
        self.real.claim_jobs_if_leased(claim_request(self.lease, limit)).await.unwrap().len()
    }

    async fn state(&self, job: JobId) -> JobState {
        self.real.job(job).await.unwrap().unwrap().state()
    }

    /// A heartbeat, and when it was sent.
    async fn beat(&self) -> (Heartbeat, Duration) {
        let sent_at = self.uptime.now();
        (self.real.heartbeat_if_leased(self.lease).await.unwrap(), sent_at)
    }

    async fn hear_one(&mut self) -> Vec<JobId> {
        let (beat, sent_at) = self.beat().await;
        self.desk.hear(&beat, sent_at)
    }
}

/// The node lives and knows nothing of the job that the store counts as its own: two heartbeats later it is queued again.
#[tokio::test]
async fn c09_a_job_whose_claim_was_never_answered_is_free_again_after_two_heartbeats() {
    let mut world = World::new().await;
    let job = world.enqueue().await;
    world.faulty.arm(Fault::LoseClaimAnswer);
    world.desk.exchange(true).await.unwrap_err();
    assert_eq!(world.state(job).await, JobState::Running, "the store counts it as the node's");
    // Once is not enough: the answer to the claim may just be on its way.
    assert!(world.hear_one().await.is_empty());
    let strays = world.hear_one().await;
    assert_eq!(strays, [job]);
    assert_eq!(world.desk.give_back(strays).await.unwrap(), 1);
    assert_eq!(world.state(job).await, JobState::Queued);

    // Nothing is left to wonder about, and the job runs as if nothing had been.
    assert!(world.hear_one().await.is_empty());
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, 1);
    world.desk.next_end().await;
    world.desk.exchange(false).await.unwrap();
    let view = world.real.job(job).await.unwrap().unwrap();
    assert_eq!((view.state(), view.job.attempt), (JobState::Completed, 1));
}

/// A busy desk hears heartbeats late; what it has reported meanwhile is no stray.
#[tokio::test]
async fn c09_heartbeats_that_are_heard_late_make_no_stray_of_what_has_ended() {
    let mut world = World::new().await;
    let job = world.enqueue().await;
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, 1);
    let late = [world.beat().await, world.beat().await];
    world.desk.next_end().await;
    assert_eq!(world.desk.exchange(false).await.unwrap().closed, 1);
    for (beat, sent_at) in late {
        assert_eq!(beat.running, [job], "it was running when the beat was answered");
        assert!(world.desk.hear(&beat, sent_at).is_empty());
    }
}

/// Reports and claims go out together; that the answer to the reports was lost says nothing about the claim.
#[tokio::test]
async fn c09_what_was_claimed_is_run_although_the_reports_beside_it_failed() {
    let mut world = World::new().await;
    world.enqueue().await;
    assert_eq!(world.desk.exchange(true).await.unwrap().claimed, 1);
    world.desk.next_end().await;
    let second = world.enqueue().await;
    world.faulty.arm(Fault::LoseFinishAnswer);
    world.desk.exchange(true).await.unwrap_err();
    // It may be over by the time the other answer is known to be lost.
    assert!(world.desk.jobs().contains(&second), "the second job was claimed, and runs or has run");
    world.desk.next_end().await;
    world.desk.exchange(false).await.unwrap();
    assert_eq!(world.state(second).await, JobState::Completed);
}
