//! Bulk operations: which jobs they change, that each is changed once, and how they end.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::bulk::{Bulk, BulkAction, BulkStep, NewBulk, STEP_MAX};
use punctual_core::id::{BulkId, JobId};
use punctual_core::job::{JobState, NewJob, Whereabouts};
use punctual_core::readings::{JobFilter, JobsIn};
use punctual_core::run::{ErrorCode, Trigger};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{FinishedRun, Lease};
use std::collections::BTreeSet;

fn asked(action: BulkAction, filter: JobFilter) -> NewBulk {
    let priority = (action == BulkAction::Reprioritise).then_some(9);
    NewBulk { action, filter, priority, by: Some("ada".to_owned()) }
}

fn of_queue(queue: &str) -> JobFilter {
    JobFilter { queue: Some(queue.to_owned()), ..JobFilter::default() }
}

fn in_state(state: JobState) -> JobFilter {
    JobFilter { place: JobsIn::State(state), ..JobFilter::default() }
}

async fn begin(world: &World, asked: NewBulk) -> Bulk {
    world.store().create_bulk(asked).await.expect("it begins")
}

/// Takes steps until there is nothing to do.
async fn advance_all(world: &World) {
    while world.store().advance_bulks().await.expect("a step").more {}
}

async fn ended(world: &World, id: BulkId) -> Bulk {
    let found = world.store().bulk(id).await.expect("an answer").expect("an operation");
    assert!(found.ended_at.is_some());
    found
}

/// Carries out an operation; says how many jobs it changed and how many it left alone.
async fn carry_out(world: &World, asked: NewBulk) -> (u64, u64) {
    let expected = world.store().count_bulk(&asked).await.expect("a count");
    let id = begin(world, asked).await.id;
    advance_all(world).await;
    let over = ended(world, id).await;
    assert_eq!(over.done, expected, "as many as were counted before");
    (over.done, over.passed)
}

/// A job that failed for good.
async fn failed(world: &World, lease: Lease, spec: NewJob) -> JobId {
    let id = world.enqueue(NewJob { retry: no_retry(), ..spec }).await;
    assert_eq!(world.claim_one(lease).await, id);
    assert_eq!(world.fail(lease, id).await, None);
    id
}

pub async fn c18_bulk_retry_takes_what_failed_for_one_reason(world: &mut World) {
    let lease = world.node("n").await;
    let ids = world.enqueue_all(vec![NewJob { retry: no_retry(), ..job() }; 3]).await;
    assert_eq!(world.claim(lease, ALL).await, ids);
    for (id, code) in ids.iter().zip([ErrorCode::Timeout, ErrorCode::BadOutput, ErrorCode::Timeout]) {
        world.finish(lease, FinishedRun::failed(*id, code, "no")).await;
    }
    let timeout = || JobFilter { error_code: Some(ErrorCode::Timeout), ..JobFilter::default() };
    assert_eq!(carry_out(world, asked(BulkAction::Retry, timeout())).await, (2, 0));
    let mut retried = BTreeSet::new();
    for id in world.claim(lease, ALL).await {
        retried.insert(world.job(id).await.job.retry_of);
    }
    assert_eq!(retried, [Some(ids[0]), Some(ids[2])].into());
    let refused = refusal(world.store().create_bulk(asked(BulkAction::Cancel, timeout())).await);
    assert_eq!(refused.field, "error_code");
}

pub async fn c18_bulk_cancel_stops_what_waits_and_what_runs(world: &mut World) {
    let lease = world.node("n").await;
    let running = world.enqueue(job()).await;
    assert_eq!(world.claim_one(lease).await, running);
    let queued = world.enqueue_all(vec![serial_job("k"), serial_job("k"), job()]).await;
    let later = world.enqueue(NewJob { run_at: Some(clock_time("01:00:00")), ..job() }).await;
    let elsewhere = world.enqueue(NewJob { queue: "other".into(), ..job() }).await;
    let done = world.enqueue(NewJob { priority: 5, ..job() }).await;
    assert_eq!(world.claim_one(lease).await, done);
    world.complete(lease, done).await;
    assert_eq!(carry_out(world, asked(BulkAction::Cancel, of_queue("default"))).await, (5, 0));
    for id in queued.into_iter().chain([later]) {
        let run = world.closed_run(id).await;
        assert_eq!((run.error_code, run.started_at), (Some(ErrorCode::Cancelled), None));
    }
    let Whereabouts::Running(run) = world.job(running).await.whereabouts else { panic!("it runs") };
    assert!(run.cancel_requested_at.is_some());
    assert_eq!((world.state(elsewhere).await, world.state(done).await), (JobState::Queued, JobState::Completed));
    // A key whose jobs are gone is free.
    let next = world.enqueue(serial_job("k")).await;
    assert_eq!(world.readiness().await, [(next, true)]);
}

pub async fn c18_bulk_operations_take_only_jobs_that_the_filter_finds(world: &mut World) {
    let tagged = world.enqueue(NewJob { tags: vec!["gpu".into()], ..job() }).await;
    let owned = world.enqueue(NewJob { owner: Some("ada".into()), ..job() }).await;
    world.pass(mins(1));
    let late = world.enqueue(job()).await;
    let by_tag = JobFilter { tag: Some("gpu".into()), ..JobFilter::default() };
    let by_owner = JobFilter { owner: Some("ada".into()), ..JobFilter::default() };
    let by_time = JobFilter { since: Some(world.clock_now()), ..JobFilter::default() };
    let by_type = JobFilter { job_type: Some("task:none".into()), ..JobFilter::default() };
    assert_eq!(carry_out(world, asked(BulkAction::Cancel, by_type)).await, (0, 0));
    for (filter, id) in [(by_tag, tagged), (by_owner, owned), (by_time, late)] {
        assert_eq!(world.state(id).await, JobState::Queued);
        assert_eq!(carry_out(world, asked(BulkAction::Cancel, filter)).await, (1, 0));
        assert_eq!(world.state(id).await, JobState::Cancelled);
    }
}

pub async fn c18_jobs_that_come_later_are_not_changed(world: &mut World) {
    let before = world.enqueue(job()).await;
    let id = begin(world, asked(BulkAction::Cancel, JobFilter::default())).await.id;
    world.pass(secs(1));
    let later = world.enqueue(job()).await;
    advance_all(world).await;
    assert_eq!(ended(world, id).await.done, 1);
    assert_eq!((world.state(before).await, world.state(later).await), (JobState::Cancelled, JobState::Queued));
}

pub async fn c04_bulk_retry_tries_what_failed_once_more_and_once_only(world: &mut World) {
    let lease = world.node("n").await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(failed(world, lease, job()).await);
    }
    let by_hand = world.store().retry_job_if_ended(all[1], None).await.expect("a retry by hand");
    let cancelled = world.enqueue(job()).await;
    world.store().cancel_job(cancelled).await.expect("it is cancelled");
    assert_eq!(carry_out(world, asked(BulkAction::Retry, JobFilter::default())).await, (2, 1));
    let queue = world.queue("default").await;
    let of: Vec<Option<JobId>> = {
        let mut of = Vec::new();
        for id in &queue {
            let job = world.job(*id).await.job;
            assert_eq!((job.attempt, job.spec.trigger), (2, Trigger::Retry));
            of.push(job.retry_of);
        }
        of
    };
    assert_eq!(of, [Some(all[1]), Some(all[0]), Some(all[2])], "by hand first, then in the order of their ids");
    assert_eq!(queue[0], by_hand);
    assert_eq!(world.job(queue[1]).await.job.spec.trigger_detail.as_deref(), Some("ada"));
    assert_eq!(carry_out(world, asked(BulkAction::Retry, JobFilter::default())).await, (0, 3), "all have a retry");
    assert_eq!(carry_out(world, asked(BulkAction::Retry, in_state(JobState::Cancelled))).await, (1, 0));
}

pub async fn c04_bulk_retry_leaves_jobs_of_a_deleted_schedule_alone(world: &mut World) {
    let lease = world.node("n").await;
    let definition = ScheduleDefinition { retry: no_retry(), ..minutely("gone") };
    let schedule = world.create(definition).await;
    world.set_time("00:01:00");
    let fired = world.fire_one().await;
    assert_eq!(world.claim_one(lease).await, fired);
    world.fail(lease, fired).await;
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    let other = failed(world, lease, job()).await;
    let id = begin(world, asked(BulkAction::Retry, JobFilter::default())).await.id;
    advance_all(world).await;
    let over = ended(world, id).await;
    assert_eq!((over.done, over.passed), (1, 1));
    let queue = world.queue("default").await;
    assert_eq!(queue.len(), 1);
    assert_eq!(world.job(queue[0]).await.job.retry_of, Some(other));
}

pub async fn c05_bulk_reprioritise_keeps_the_order_of_what_it_lifts(world: &mut World) {
    let low = world.enqueue_all(vec![job(), job(), job()]).await;
    let high = world.enqueue(NewJob { priority: 9, queue: "default".into(), tags: vec!["x".into()], ..job() }).await;
    let key = world.enqueue_all(vec![serial_job("k"), NewJob { priority: 4, ..serial_job("k") }]).await;
    assert_eq!(world.queue("default").await, [high, key[1], low[0], low[1], low[2], key[0]]);
    assert_eq!(carry_out(world, asked(BulkAction::Reprioritise, JobFilter::default())).await, (6, 0));
    assert_eq!(world.queue("default").await, [low[0], low[1], low[2], high, key[0], key[1]]);
    let ready: Vec<bool> = world.readiness().await.into_iter().map(|(_, ready)| ready).collect();
    assert_eq!(ready, [true, true, true, true, true, false], "the head of the key is another one now");
    let lease = world.node("n").await;
    assert_eq!(world.claim(lease, ALL).await, [low[0], low[1], low[2], high, key[0]]);
}

pub async fn c18_a_bulk_operation_goes_on_where_it_was_after_a_restart(world: &mut World) {
    let count = 2 * STEP_MAX + 7;
    let all: BTreeSet<JobId> = world.enqueue_all(vec![job(); count]).await.into_iter().collect();
    let id = begin(world, asked(BulkAction::Cancel, of_queue("default"))).await.id;
    let first = loop {
        let step = world.store().advance_bulks().await.expect("a step");
        if step.done > 0 {
            break step;
        }
    };
    assert_eq!(first, BulkStep { done: STEP_MAX as u64, passed: 0, ended: 0, more: true });
    world.reopen().await;
    let half = world.store().bulk(id).await.expect("an answer").expect("an operation");
    assert_eq!((half.done, half.ended_at, half.cancelled), (STEP_MAX as u64, None, false));
    advance_all(world).await;
    assert_eq!(ended(world, id).await.done, count as u64);
    assert_eq!(world.queue("default").await, []);
    assert_eq!(world.count("SELECT count(*) FROM {runs}").await, i64::try_from(all.len()).expect("a number"));
}

pub async fn c04_two_who_go_on_at_once_change_each_job_once(world: &mut World) {
    let lease = world.node("n").await;
    let spec = NewJob { retry: no_retry(), ..job() };
    let count = STEP_MAX + 50;
    world.enqueue_all(vec![spec; count]).await;
    for id in world.claim(lease, ALL).await {
        world.fail(lease, id).await;
    }
    // Two operations about the same jobs, and two who go on with them.
    let ids = [BulkAction::Retry, BulkAction::Retry].map(|action| asked(action, JobFilter::default()));
    let mut begun = Vec::new();
    for asked in ids {
        begun.push(begin(world, asked).await.id);
    }
    tokio::join!(advance_all(world), advance_all(world), advance_all(world));
    // One that another node was about may have been passed over.
    advance_all(world).await;
    let (one, two) = (ended(world, begun[0]).await, ended(world, begun[1]).await);
    assert_eq!(one.done + two.done, count as u64);
    assert_eq!(one.passed + two.passed, count as u64);
    assert_eq!(world.queue("default").await.len(), count);
    assert_eq!(world.count("SELECT count(*) FROM {retries}").await, i64::try_from(count).expect("a number"));
}

pub async fn c18_a_cancelled_bulk_operation_stops_and_is_listed(world: &mut World) {
    let jobs = world.enqueue_all(vec![job(); STEP_MAX + 1]).await;
    let first = begin(world, asked(BulkAction::Cancel, of_queue("default"))).await;
    assert_eq!(first.asked, asked(BulkAction::Cancel, of_queue("default")));
    while world.store().advance_bulks().await.expect("a step").done == 0 {}
    let stopped = world.store().cancel_bulk(first.id).await.expect("it is stopped");
    assert_eq!((stopped.cancelled, stopped.done), (true, STEP_MAX as u64));
    assert_eq!(world.store().advance_bulks().await, Ok(BulkStep::default()));
    assert_eq!(world.queue("default").await, jobs[STEP_MAX..]);
    world.pass(secs(1));
    let own = JobFilter { owner: Some("ada".into()), ..JobFilter::default() };
    let second = begin(world, asked(BulkAction::Cancel, own)).await;
    advance_all(world).await;
    let over = ended(world, second.id).await;
    assert_eq!(world.store().cancel_bulk(second.id).await, Ok(over), "it has ended, and stays as it is");
    let list = async |owner, before| -> Vec<BulkId> {
        let listed: Vec<Bulk> = world.store().bulks(owner, before, 10).await.expect("a list");
        listed.into_iter().map(|bulk| bulk.id).collect()
    };
    assert_eq!(list(None, None).await, [second.id, first.id]);
    assert_eq!(list(None, Some(second.id)).await, [first.id]);
    assert_eq!(list(Some("ada"), None).await, [second.id]);
    assert_eq!(list(Some("bob"), None).await, []);
    assert_not_found(world.store().cancel_bulk(BulkId(nobody())).await, "bulk operation");
    assert_eq!(world.store().bulk(BulkId(nobody())).await, Ok(None));
}

pub async fn c18_a_bulk_operation_that_can_do_nothing_is_refused(world: &mut World) {
    let wrong = asked(BulkAction::Cancel, in_state(JobState::Completed));
    assert_eq!(refusal(world.store().create_bulk(wrong.clone()).await).field, "state");
    assert_eq!(refusal(world.store().count_bulk(&wrong).await).field, "state");
    let nul = JobFilter { tag: Some("a\0".into()), until: Some(Timestamp::MAX), ..JobFilter::default() };
    assert_eq!(refusal(world.store().create_bulk(asked(BulkAction::Retry, nul)).await).field, "tag");
    assert_eq!(world.store().bulks(None, None, 10).await, Ok(vec![]));
}
