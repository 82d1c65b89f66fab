//! Batches of ends that are alike are closed by a statement of their own: what is in one that is not alike is lost by nobody.

use crate::harness::{Own, Words, done, node};
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::NewJob;
use punctual_core::run::Outcome;
use punctual_core::store::{FinishResult, FinishedRun, Lease, Store};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;

/// Enough to be closed together.
const BATCH: usize = 100;

const CLOSED: FinishResult = FinishResult::Closed { retry: None };

/// What is logged of a batch that was tried and undone.
const UNDONE: &str = "not all of these ends are alike";

/// After so many batches that are alike the next one is tried as such.
const TRUST: usize = 20;

/// Claims all there is.
async fn claim_all(own: &Own, lease: Lease) -> Vec<JobId> {
    let claimed = own.store.claim_jobs_if_leased(claim_request(lease, 10 * BATCH)).await.unwrap();
    claimed.into_iter().map(|claimed| claimed.job.id).collect()
}

async fn finish_all(own: &Own, lease: Lease, jobs: &[JobId]) -> Vec<FinishResult> {
    let ends: Vec<FinishedRun> = jobs.iter().copied().map(done).collect();
    own.store.finish_runs_if_leased(lease, ends).await.unwrap()
}

/// From enqueueing to the end; all are closed.
async fn work_off(own: &Own, lease: Lease, jobs: Vec<NewJob>) {
    let count = jobs.len();
    own.store.enqueue_jobs(jobs).await.unwrap();
    let claimed = claim_all(own, lease).await;
    assert_eq!(finish_all(own, lease, &claimed).await, vec![CLOSED; count]);
}

fn alike() -> Vec<NewJob> {
    (0..BATCH).map(|_| job()).collect()
}

/// So many batches that it is tried again whether the next one is alike.
async fn gain_trust(own: &Own, lease: Lease) {
    for _ in 0..TRUST {
        work_off(own, lease, alike()).await;
    }
}

async fn last_outcome(own: &Own, schedule: ScheduleId) -> Option<Outcome> {
    own.store.schedule(&schedule.into()).await.unwrap().unwrap().results.last_outcome
}

/// A job of a schedule, two of a serial key, or both among many that are alike: with batches between them that are alike, so
/// that each is tried as such.
#[test]
fn e08_what_is_not_alike_in_a_large_batch_is_closed_as_it_should_be() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("worker")).await.unwrap();
        let schedule = own.store.create_schedule(minutely("among-them")).await.unwrap().id;
        let undone = Words::listen(UNDONE);
        for (round, (of_schedule, of_key)) in [(1, 0), (0, 2), (1, 2)].into_iter().enumerate() {
            gain_trust(&own, lease).await;
            assert_eq!(undone.count(), round, "those that are alike are closed as such");
            own.clock.advance(mins(of_schedule));
            let fired = own.store.fire_due(None, 10).await.unwrap().jobs.len();
            let mut jobs = alike();
            jobs.extend(vec![serial_job("in-turn"); of_key]);
            own.store.enqueue_jobs(jobs).await.unwrap();
            let claimed = claim_all(&own, lease).await;
            assert_eq!(claimed.len(), BATCH + fired + of_key / 2, "one of the key waits");
            assert_eq!(finish_all(&own, lease, &claimed).await, vec![CLOSED; claimed.len()]);
            assert_eq!(undone.count(), round + 1, "it was tried whether these are");
            assert_eq!(last_outcome(&own, schedule).await, Some(Outcome::Completed));
            let live = own.number("SELECT count(*) FROM punctual_internal.schedule_live").await;
            assert_eq!(live, 0, "nothing of the schedule is going on");
            let second = claim_all(&own, lease).await;
            assert_eq!(second.len(), of_key / 2, "the key is free, in round {round}");
            assert_eq!(finish_all(&own, lease, &second).await, vec![CLOSED; second.len()]);
        }
        let runs = own.number("SELECT count(*) FROM punctual_internal.runs WHERE final").await;
        assert_eq!(usize::try_from(runs), Ok(3 * (TRUST + 1) * BATCH + 6));
    });
}

/// Who has lost a job to somebody else hears of that one, and the others are closed; what is said twice counts once.
#[test]
fn c09_a_large_batch_with_a_lost_job_or_one_that_is_reported_twice_closes_the_others() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("worker")).await.unwrap();
        let other = own.store.register_node(node("other")).await.unwrap();
        let undone = Words::listen(UNDONE);
        own.store.enqueue_jobs(alike()).await.unwrap();
        let claimed = claim_all(&own, lease).await;
        let lost = claimed[..1].to_vec();
        assert_eq!(own.store.give_back_if_leased(lease, lost.clone()).await.unwrap(), lost);
        assert_eq!(claim_all(&own, other).await, lost);
        let mut expected = vec![CLOSED; BATCH];
        expected[0] = FinishResult::LostLease;
        assert_eq!((finish_all(&own, lease, &claimed).await, undone.count()), (expected, 1));
        assert_eq!(finish_all(&own, other, &lost).await, [CLOSED], "it was left to whoever runs it");

        gain_trust(&own, lease).await;
        own.store.enqueue_jobs(alike()).await.unwrap();
        let mut twice = claim_all(&own, lease).await;
        twice.push(twice[0]);
        let results = finish_all(&own, lease, &twice).await;
        let closed = results.iter().filter(|result| **result == CLOSED).count();
        assert_eq!((closed, undone.count()), (BATCH, 2), "{results:?}");
        let runs = own.number("SELECT count(*) FROM punctual_internal.runs WHERE final").await;
        assert_eq!(usize::try_from(runs), Ok((TRUST + 2) * BATCH));
    });
}
