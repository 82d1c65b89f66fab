//! A bulk operation whose workers are killed again and again: it comes to its end, and every job is changed once.

use crate::process::{Ear, Said, Worker};
use crate::world::{World, on_both_stores};
use punctual_core::bulk::{BulkAction, NewBulk, STEP_MAX};
use punctual_core::id::{ClaimId, JobId};
use punctual_core::job::NewJob;
use punctual_core::readings::JobFilter;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::ErrorCode;
use punctual_core::store::{ClaimRequest, FinishedRun, NewNode};
use punctual_core::target::Target;

/// More than a worker does before it is killed, as a rule.
const JOBS: usize = 15 * STEP_MAX;

/// How many workers are killed.
const KILLS: usize = 4;

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap()
}

/// Jobs that have failed for good, of a kind that no worker offers.
async fn failed_jobs(world: &World) -> Vec<JobId> {
    let spec = NewJob { retry: RetryPolicy::none(), ..NewJob::new(Target::task("nobody")) };
    let jobs = world.store.enqueue_jobs(vec![spec; JOBS]).await.unwrap();
    let offers = vec!["task:nobody".to_owned()];
    let lease = world.store.register_node(NewNode { name: "hand".to_owned(), offers: offers.clone() }).await.unwrap();
    for _ in 0..JOBS / 500 {
        let claim_id = ClaimId(uuid::Uuid::new_v4());
        let request = ClaimRequest { lease, claim_id, queues: Vec::new(), job_types: offers.clone(), limit: 500 };
        let claimed = world.store.claim_jobs_if_leased(request).await.unwrap();
        let end = |id| FinishedRun::failed(id, ErrorCode::TargetError, "it broke");
        let ends = claimed.iter().map(|claimed| end(claimed.job.id)).collect();
        world.store.finish_runs_if_leased(lease, ends).await.unwrap();
    }
    world.store.leave_if_leased(lease).await.unwrap();
    assert_eq!(world.number("SELECT count(*) FROM {runs} WHERE outcome = 'failed'").await, whole(JOBS));
    jobs
}

/// Starts a worker and kills it as soon as it takes a step.
async fn kill_in_a_step(world: &World, ear: &mut Ear) {
    let mut worker = Worker::start(world, ear);
    let begun = (worker.pid(), Said::Begins("bulk".to_owned()));
    while ear.next().await != begun {}
    worker.kill();
}

on_both_stores! {
    async fn c04_a_bulk_retry_whose_workers_are_killed_tries_each_job_again_once(world: &World) {
        let jobs = failed_jobs(world).await;
        let asked = NewBulk { action: BulkAction::Retry, filter: JobFilter::default(), priority: None, by: None };
        assert_eq!(world.store.count_bulk(&asked).await.unwrap(), JOBS as u64);
        let id = world.store.create_bulk(asked).await.unwrap().id;
        let mut ear = Ear::new();
        let mut cut = Vec::new();
        for _ in 0..KILLS {
            kill_in_a_step(world, &mut ear).await;
            let bulk = world.store.bulk(id).await.unwrap().unwrap();
            cut.extend(bulk.ended_at.is_none().then_some(bulk.done));
        }
        assert!(!cut.is_empty(), "every worker was done before it was killed, so nothing was shown");
        eprintln!("killed after {cut:?} of {JOBS}");
        let _survivor = Worker::start(world, &ear);
        world.until("SELECT count(*) FROM {bulk_operations} WHERE ended_at IS NULL", |open| open == 0).await;
        let bulk = world.store.bulk(id).await.unwrap().unwrap();
        assert_eq!((bulk.done, bulk.passed, bulk.cancelled), (JOBS as u64, 0, false));
        assert_eq!(world.number("SELECT count(*) FROM {jobs} WHERE retry_of IS NOT NULL").await, whole(JOBS));
        assert_eq!(world.number("SELECT count(DISTINCT retry_of) FROM {jobs}").await, whole(jobs.len()));
    }
}
