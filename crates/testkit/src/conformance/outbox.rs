//! The outbox: what is told, in which transaction, to whom, and how often.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::id::{JobId, NoticeId};
use punctual_core::job::NewJob;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{FinishedRun, Lease, Retention, StoreError};
use punctual_core::upkeep::{Notice, NoticeKind};
use serde::Deserialize;

async fn notices(world: &World, lease: Lease) -> Vec<Notice> {
    world.store().take_notices_if_leased(lease, ALL).await.expect("notices can be taken")
}

/// What is told, as kinds and jobs, oldest first.
async fn told(world: &World, lease: Lease) -> Vec<(NoticeKind, Option<JobId>)> {
    notices(world, lease).await.iter().map(|notice| (notice.news.kind, notice.news.job_id)).collect()
}

fn ids(notices: &[Notice]) -> Vec<NoticeId> {
    notices.iter().map(|notice| notice.id).collect()
}

/// A schedule whose jobs fail for good the first time.
fn fragile(name: &str) -> ScheduleDefinition {
    ScheduleDefinition { retry: no_retry(), ..minutely(name) }
}

/// Fires the next slot, and claims its job.
async fn next_run(world: &World, lease: Lease) -> JobId {
    world.pass(mins(1));
    let id = world.fire_one().await;
    assert_eq!(world.claim(lease, ALL).await, [id]);
    id
}

/// What a failure is told with.
#[derive(Deserialize)]
struct FailurePayload {
    error_code: ErrorCode,
    error: String,
    attempt: u32,
    root_job_id: JobId,
}

/// What a recovery is told with.
#[derive(Deserialize)]
struct RecoveryPayload {
    failing_since: Timestamp,
}

pub async fn n04_the_last_failure_of_a_chain_is_told_once_and_a_retry_is_not(world: &mut World) {
    let lease = world.node("a").await;
    let first = world.enqueue(retried_job(2, SHORTEST_WAIT)).await;
    world.claim_one(lease).await;
    let second = world.fail_and_requeue(lease, first).await;
    assert_eq!(told(world, lease).await, [], "a retry follows");
    world.claim_one(lease).await;
    assert_eq!(world.fail(lease, second).await, None);
    let [notice] = notices(world, lease).await.try_into().expect("one notice");
    assert_eq!((notice.news.kind, notice.news.job_id), (NoticeKind::RunFailed, Some(second)));
    assert_eq!((notice.news.schedule_id, notice.news.node_id), (None, None));
    assert_eq!(notice.created_at, world.closed_run(second).await.finished_at);
    let payload: FailurePayload = notice.news.payload.to().expect("the payload can be read");
    assert_eq!((payload.error_code, payload.error.as_str()), (ErrorCode::TargetError, "it broke"));
    assert_eq!((payload.attempt, payload.root_job_id), (2, first));
    let good = world.enqueue(job()).await;
    world.claim_one(lease).await;
    world.complete(lease, good).await;
    assert_eq!(world.count("SELECT COUNT(*) FROM {outbox}").await, 1, "a success is no news");
}

pub async fn n04_a_success_is_told_after_a_failure_that_was_told(world: &mut World) {
    let schedule = world.create(fragile("fragile")).await;
    let lease = world.node("a").await;
    for _ in 0..2 {
        let fine = next_run(world, lease).await;
        world.complete(lease, fine).await;
    }
    let mut broken = Vec::new();
    for _ in 0..2 {
        broken.push(next_run(world, lease).await);
        world.fail(lease, broken[broken.len() - 1]).await;
    }
    for _ in 0..2 {
        broken.push(next_run(world, lease).await);
        world.complete(lease, broken[broken.len() - 1]).await;
    }
    let kinds = [NoticeKind::RunFailed, NoticeKind::RunFailed, NoticeKind::Recovered];
    let expected: Vec<_> = kinds.into_iter().zip(broken.iter().map(|id| Some(*id))).collect();
    assert_eq!(told(world, lease).await, expected, "and the next success is no news again");
    let recovered = &notices(world, lease).await[2].news;
    assert_eq!(recovered.schedule_id, Some(schedule.id));
    let payload: RecoveryPayload = recovered.payload.to().expect("the payload can be read");
    assert_eq!(payload.failing_since, world.closed_run(broken[0]).await.finished_at, "since the first failure told");
    // A failure that a retry made up for was never told, so neither is the success.
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    world.create(ScheduleDefinition { retry: retry(3, SHORTEST_WAIT), ..minutely("retried") }).await;
    let first = next_run(world, lease).await;
    let second = world.fail_and_requeue(lease, first).await;
    world.claim_one(lease).await;
    world.complete(lease, second).await;
    assert_eq!(told(world, lease).await.len(), 3);
}

pub async fn n04_a_failure_and_a_success_of_one_batch_are_both_told(world: &mut World) {
    world.create(fragile("batched")).await;
    let lease = world.node("a").await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        runs.push(next_run(world, lease).await);
    }
    let broken = |id| FinishedRun::failed(id, ErrorCode::TargetError, "it broke");
    let ends = vec![broken(runs[0]), FinishedRun::completed(runs[1]), broken(runs[2])];
    world.store().finish_runs_if_leased(lease, ends).await.expect("the ends are stored");
    let mut kinds: Vec<_> = told(world, lease).await.into_iter().map(|(kind, _)| kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [NoticeKind::RunFailed, NoticeKind::RunFailed, NoticeKind::Recovered]);
    let good = next_run(world, lease).await;
    world.complete(lease, good).await;
    let last = told(world, lease).await.pop();
    assert_eq!(last, Some((NoticeKind::Recovered, Some(good))), "the batch ended in a failure");
}

pub async fn n04_a_lost_node_is_told_once(world: &mut World) {
    let (lost, lease) = (world.node("gone").await, world.node("here").await);
    let kept = world.enqueue(job()).await;
    let given_up = world.enqueue(NewJob { retry: RetryPolicy::none(), ..job() }).await;
    assert_eq!(world.claim(lost, ALL).await, [kept, given_up]);
    let recovered = world.recover(lost).await;
    assert_eq!((recovered.nodes, recovered.closed.len()), (1, 2));
    world.store().recover_lost_nodes(Vec::new()).await.expect("recovery succeeds");
    let all = notices(world, lease).await;
    let node: Vec<_> = all.iter().filter(|notice| notice.news.kind == NoticeKind::NodeLost).collect();
    assert_eq!(node.len(), 1);
    assert_eq!(node[0].news.node_id, Some(lost.node_id));
    assert!(node[0].news.payload.as_str().contains("gone"), "{:?}", node[0]);
    let runs: Vec<_> = all.iter().filter(|notice| notice.news.kind == NoticeKind::RunFailed).collect();
    assert_eq!(runs.iter().map(|notice| notice.news.job_id).collect::<Vec<_>>(), [Some(given_up)]);
}

pub async fn n04_what_was_cancelled_or_deleted_is_not_told(world: &mut World) {
    let schedule = world.create(fragile("doomed")).await;
    let lease = world.node("a").await;
    let doomed = next_run(world, lease).await;
    let cancelled = world.enqueue(NewJob { retry: no_retry(), ..job() }).await;
    world.claim_one(lease).await;
    world.store().cancel_job(cancelled).await.expect("it is asked to stop");
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    for id in [doomed, cancelled] {
        assert_eq!(world.fail(lease, id).await, None);
    }
    assert_eq!(told(world, lease).await, [], "nobody wants either any more");
}

pub async fn n04_news_is_written_with_what_it_tells_or_not_at_all(world: &mut World) {
    let lease = world.node("a").await;
    let id = world.enqueue(NewJob { retry: no_retry(), ..job() }).await;
    world.claim_one(lease).await;
    world.faults.refuse_commits(true).await;
    let report = FinishedRun::failed(id, ErrorCode::TargetError, "it broke");
    assert!(world.store().finish_runs_if_leased(lease, vec![report]).await.is_err());
    world.faults.refuse_commits(false).await;
    assert_eq!(world.count("SELECT COUNT(*) FROM {outbox}").await, 0);
    assert_eq!(world.fail(lease, id).await, None);
    assert_eq!(world.count("SELECT COUNT(*) FROM {outbox}").await, 1);
}

/// Makes so many notices.
async fn make_notices(world: &World, lease: Lease, count: usize) {
    for id in world.enqueue_all(vec![NewJob { retry: no_retry(), ..job() }; count]).await {
        world.claim_one(lease).await;
        assert_eq!(world.fail(lease, id).await, None);
        world.pass(secs(1));
    }
}

pub async fn n04_a_notice_goes_to_one_node_until_that_node_is_gone(world: &mut World) {
    let (one, two) = (world.node("one").await, world.node("two").await);
    make_notices(world, one, 3).await;
    let taken = world.store().take_notices_if_leased(one, 2).await.expect("notices can be taken");
    assert_eq!(taken.len(), 2);
    assert!(taken[0].id < taken[1].id, "oldest first");
    let rest = notices(world, two).await;
    assert_eq!(rest.len(), 1, "each goes to one node");
    assert_eq!(ids(&notices(world, one).await), ids(&taken), "asking again brings the same");
    world.recover(one).await;
    let all = notices(world, two).await;
    assert_eq!(ids(&all)[..3], [taken[0].id, taken[1].id, rest[0].id], "what a lost node had goes to another");
    assert_eq!(all[3].news.kind, NoticeKind::NodeLost);
    let refused = world.store().take_notices_if_leased(one, ALL).await;
    assert_eq!(refused, Err(StoreError::LostLease));
    assert_eq!(world.store().take_notices_if_leased(foreign_lease(), ALL).await, Err(StoreError::LostLease));
}

pub async fn n04_only_who_has_taken_a_notice_closes_it_and_once(world: &mut World) {
    let (one, two) = (world.node("one").await, world.node("two").await);
    make_notices(world, one, 2).await;
    let taken = ids(&notices(world, one).await);
    let store = world.store();
    assert_eq!(store.close_notices_if_taken(two, taken.clone()).await, Ok(Vec::new()));
    let own = vec![taken[0], NoticeId(nobody())];
    assert_eq!(store.close_notices_if_taken(one, own.clone()).await, Ok(vec![taken[0]]));
    assert_eq!(store.close_notices_if_taken(one, own).await, Ok(Vec::new()), "closed once");
    assert_eq!(ids(&notices(world, one).await), [taken[1]], "what is delivered is not handed out again");
    world.recover(one).await;
    let late = store.close_notices_if_taken(one, vec![taken[1]]).await;
    assert_eq!(late, Err(StoreError::LostLease));
    assert_eq!(ids(&notices(world, two).await)[0], taken[1]);
}

pub async fn n04_old_notices_are_forgotten(world: &mut World) {
    let lease = world.node("a").await;
    make_notices(world, lease, 3).await;
    let kept = ids(&notices(world, lease).await)[2];
    let horizon = clock_time("00:00:02");
    let pruned = world.store().prune_history(Retention::before(horizon, ALL)).await.expect("history can be pruned");
    assert_eq!(pruned.notices, 2);
    assert_eq!(ids(&notices(world, lease).await), [kept]);
}
