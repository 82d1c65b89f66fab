//! A claim whose answer was lost, heartbeat by heartbeat.

use crate::faulty::{Fault, FaultyStore};
use punctual_core::job::{JobState, NewJob};
use punctual_core::store::{NewNode, Store};
use punctual_core::target::Target;
use punctual_engine::clock::Uptime;
use punctual_engine::dispatch::{Desk, DeskOptions, RunningSet};
use punctual_engine::targets::task::Handler;
use punctual_engine::work::Executors;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;
use std::time::Duration;

/// The node lives and knows nothing of the job that the store counts as its own: two heartbeats later it is queued again.
#[tokio::test]
async fn c09_a_job_whose_claim_was_never_answered_is_free_again_after_two_heartbeats() {
    let folder = tempfile::tempdir().unwrap();
    let real = Arc::new(SqliteStore::open(&folder.path().join("a.db"), SqliteOptions::default()).unwrap());
    let faulty = FaultyStore::new(Arc::clone(&real));
    let executors = Executors::default().with("task:work", Arc::new(Handler::new(|_| async { Ok(None) })));
    let lease = real.register_node(NewNode { name: "n".into(), offers: executors.job_types() }).await.unwrap();
    let options = DeskOptions { room: 4, prefetch: 0, queues: Vec::new(), grace: Duration::ZERO };
    let uptime = Uptime::start();
    let store = Arc::clone(&faulty) as Arc<dyn Store>;
    let mut desk = Desk::new(store, lease, executors, options, uptime, RunningSet::default());
    let job = real.enqueue_jobs(vec![NewJob::new(Target::task("work"))]).await.unwrap()[0];
    faulty.arm(Fault::LoseClaimAnswer);
    desk.exchange(true).await.unwrap_err();
    let state = async || real.job(job).await.unwrap().unwrap().state();
    assert_eq!(state().await, JobState::Running, "the store counts it as the node's");

    let first = real.heartbeat_if_leased(lease).await.unwrap();
    // Once is not enough: the answer to the claim may just be on its way.
    assert!(desk.hear(&first, uptime.now()).is_empty());
    let second = real.heartbeat_if_leased(lease).await.unwrap();
    let strays = desk.hear(&second, uptime.now());
    assert_eq!(strays, [job]);
    assert_eq!(desk.give_back(strays).await.unwrap(), 1);
    assert_eq!(state().await, JobState::Queued);

    // Nothing is left to wonder about, and the job runs as if nothing had been.
    let third = real.heartbeat_if_leased(lease).await.unwrap();
    assert!(desk.hear(&third, uptime.now()).is_empty());
    assert_eq!(desk.exchange(true).await.unwrap().claimed, 1);
    desk.next_end().await;
    desk.exchange(false).await.unwrap();
    let view = real.job(job).await.unwrap().unwrap();
    assert_eq!((view.state(), view.job.attempt), (JobState::Completed, 1));
}
