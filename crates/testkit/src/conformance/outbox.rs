//! The outbox: what is told, in which transaction, to whom, and how often.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::id::{JobId, NoticeId};
use punctual_core::job::NewJob;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::{Missed, ScheduleDefinition};
use punctual_core::slot::Decision;
use punctual_core::store::{FinishedRun, Lease, Retention};
use punctual_core::upkeep::{Notice, NoticeKind};
use serde::Deserialize;

async fn notices(world: &World) -> Vec<Notice> {
    world.store().notices(None, ALL).await.expect("notices can be read")
}

/// What is told, as kinds and jobs, oldest first.
async fn told(world: &World) -> Vec<(NoticeKind, Option<JobId>)> {
    notices(world).await.iter().map(|notice| (notice.news.kind, notice.news.job_id)).collect()
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

/// What missed slots are told with.
#[derive(Deserialize)]
struct MissedPayload {
    slot_at: Timestamp,
    through: Timestamp,
    count: u64,
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
    assert_eq!(told(world).await, [], "a retry follows");
    world.claim_one(lease).await;
    assert_eq!(world.fail(lease, second).await, None);
    let [notice] = notices(world).await.try_into().expect("one notice");
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
    assert_eq!(told(world).await, expected, "and the next success is no news again");
    let recovered = &notices(world).await[2].news;
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
    assert_eq!(told(world).await.len(), 3);
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
    let mut kinds: Vec<_> = told(world).await.into_iter().map(|(kind, _)| kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [NoticeKind::RunFailed, NoticeKind::RunFailed, NoticeKind::Recovered]);
    let good = next_run(world, lease).await;
    world.complete(lease, good).await;
    let last = told(world).await.pop();
    assert_eq!(last, Some((NoticeKind::Recovered, Some(good))), "the batch ended in a failure");
}

pub async fn n04_a_lost_node_is_told_once(world: &mut World) {
    let lost = world.node("gone").await;
    let kept = world.enqueue(job()).await;
    let given_up = world.enqueue(NewJob { retry: RetryPolicy::none(), ..job() }).await;
    assert_eq!(world.claim(lost, ALL).await, [kept, given_up]);
    let recovered = world.recover(lost).await;
    assert_eq!((recovered.nodes, recovered.closed.len()), (1, 2));
    world.store().recover_lost_nodes(Vec::new()).await.expect("recovery succeeds");
    let all = notices(world).await;
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
    assert_eq!(told(world).await, [], "nobody wants either any more");
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

pub async fn n04_missed_slots_are_told_with_their_decision(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { missed: Missed::ONCE, ..minutely("late") }).await;
    let one = world.create(ScheduleDefinition { missed: Missed::SKIP, ..minutely("later") }).await;
    world.pass(mins(4) + secs(90));
    world.fire().await;
    let mut missed = Vec::new();
    for notice in notices(world).await {
        assert_eq!(notice.news.kind, NoticeKind::SlotsMissed);
        let payload: MissedPayload = notice.news.payload.to().expect("the payload can be read");
        missed.push((notice.news.schedule_id.expect("a schedule"), payload.slot_at, payload.through, payload.count));
    }
    missed.sort_unstable();
    let mut ledger = Vec::new();
    for id in [schedule.id, one.id] {
        let rows = world.store().slots(id, None, ALL).await.expect("the ledger can be read");
        let rows = rows.into_iter().filter(|row| row.decision == Decision::Missed);
        ledger.extend(rows.map(|row| (id, row.slot_at, row.through, row.count)));
    }
    ledger.sort_unstable();
    assert_eq!(missed, ledger, "each row of the ledger that says missed is told, once");
    assert_eq!(ledger.len(), 2);
    world.fire().await;
    assert_eq!(notices(world).await.len(), 2);
}

pub async fn n04_notices_can_be_read_page_by_page(world: &mut World) {
    let lease = world.node("a").await;
    make_notices(world, lease, 3).await;
    let all = ids(&notices(world).await);
    let store = world.store();
    let page = |after, limit| store.notices(after, limit);
    let first = ids(&page(None, 2).await.expect("a page"));
    assert_eq!(first, all[..2], "oldest first");
    assert_eq!(ids(&page(Some(first[1]), 2).await.expect("a page")), all[2..]);
}

pub async fn n04_old_notices_are_forgotten(world: &mut World) {
    let lease = world.node("a").await;
    make_notices(world, lease, 3).await;
    let kept = ids(&notices(world).await)[2];
    let horizon = clock_time("00:00:02");
    let pruned = world.store().prune_history(Retention::before(horizon, ALL)).await.expect("history can be pruned");
    assert_eq!(pruned.notices, 2);
    assert_eq!(ids(&notices(world).await), [kept]);
}
