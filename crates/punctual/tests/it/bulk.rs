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
async fn failed_jobs(world: &World, queue: &str) -> Vec<JobId> {
    let spec = NewJob { retry: RetryPolicy::none(), queue: queue.to_owned(), ..NewJob::new(Target::task("nobody")) };
    let jobs = world.store.enqueue_jobs(vec![spec; JOBS]).await.unwrap();
    let offers = vec!["task:nobody".to_owned()];
    let lease = world.store.register_node(NewNode { name: "hand".to_owned(), offers: offers.clone() }).await.unwrap();
    for _ in 0..JOBS / 500 {
        let claim_id = ClaimId(uuid::Uuid::new_v4());
        let request =
            ClaimRequest { lease, claim_id, queues: vec![queue.to_owned()], job_types: offers.clone(), limit: 500 };
        let claimed = world.store.claim_jobs_if_leased(request).await.unwrap();
        let end = |id| FinishedRun::failed(id, ErrorCode::TargetError, "it broke");
        let ends = claimed.iter().map(|claimed| end(claimed.job.id)).collect();
        world.store.finish_runs_if_leased(lease, ends).await.unwrap();
    }
    world.store.leave_if_leased(lease).await.unwrap();
    jobs
}

/// Starts a worker, lets it take some steps, and kills it in the next one.
async fn kill_after(world: &World, ear: &mut Ear, mut steps: usize) {
    let mut worker = Worker::start(world, ear);
    let (begins, ended) = (Said::Begins("bulk".to_owned()), Said::Ended("bulk".to_owned()));
    loop {
        match ear.next().await {
            (pid, said) if pid == worker.pid() && said == ended => steps = steps.saturating_sub(1),
            (pid, said) if pid == worker.pid() && said == begins && steps == 0 => break,
            _ => {}
        }
    }
    worker.kill();
}

/// One operation whose workers are killed; says how far it was each time.
async fn cut_again_and_again(world: &World, queue: &str) -> Vec<u64> {
    let jobs = failed_jobs(world, queue).await;
    let filter = JobFilter { queue: Some(queue.to_owned()), ..JobFilter::default() };
    let asked = NewBulk { action: BulkAction::Retry, filter, priority: None, by: None };
    assert_eq!(world.store.count_bulk(&asked).await.unwrap(), JOBS as u64);
    let id = world.store.create_bulk(asked).await.unwrap().id;
    let mut ear = Ear::new();
    let mut cut = Vec::new();
    for steps in 1..=KILLS {
        kill_after(world, &mut ear, steps).await;
        let bulk = world.store.bulk(id).await.unwrap().unwrap();
        cut.extend(bulk.ended_at.is_none().then_some(bulk.done));
    }
    let _survivor = Worker::start(world, &ear);
    world.until("SELECT count(*) FROM {bulk_operations} WHERE ended_at IS NULL", |open| open == 0).await;
    let bulk = world.store.bulk(id).await.unwrap().unwrap();
    assert_eq!((bulk.done, bulk.passed, bulk.cancelled), (JOBS as u64, 0, false));
    for id in jobs.iter().step_by(97) {
        let last = world.store.chain_end(*id).await.unwrap().unwrap().job;
        assert_eq!((last.attempt, last.retry_of), (2, Some(*id)));
    }
    cut
}

on_both_stores! {
    async fn c04_a_bulk_retry_whose_workers_are_killed_tries_each_job_again_once(world: &World) {
        // A worker may be done before the kill comes; then it is tried once more.
        for round in 1..=5 {
            let cut = cut_again_and_again(world, &format!("round {round}")).await;
            eprintln!("killed after {cut:?} of {JOBS}");
            let retries = world.number("SELECT count(*) FROM {jobs} WHERE retry_of IS NOT NULL").await;
            assert_eq!(retries, round * whole(JOBS));
            assert_eq!(world.number("SELECT count(DISTINCT retry_of) FROM {jobs}").await, retries);
            if cut.iter().any(|done| *done > 0) {
                return;
            }
        }
        panic!("no kill met an operation on its way, so nothing was shown");
    }
}
