//! Slots that come while a run of their schedule is alive: overlap, concurrency, serial schedules.

use crate::prelude::*;
use punctual_core::job::{JobState, Whereabouts};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Missed, Overlap, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{FinishResult, FinishedRun};

fn with(overlap: Overlap) -> ScheduleDefinition {
    ScheduleDefinition { overlap, retry: no_retry(), ..minutely("overlapping") }
}

pub async fn a21_every_policy_fires_when_nothing_is_alive(world: &mut World) {
    for overlap in Overlap::ALL {
        world.create(ScheduleDefinition { overlap: *overlap, ..minutely(overlap.as_str()) }).await;
    }
    let lease = world.node("a").await;
    for round in 1..=3 {
        world.pass(mins(1));
        assert_eq!(world.fire().await.jobs.len(), Overlap::ALL.len(), "round {round}");
        for job in world.claim(lease, ALL).await {
            world.complete(lease, job).await;
        }
    }
}

pub async fn a21_allow_lets_both_run(world: &mut World) {
    world.create(with(Overlap::Allow)).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    assert_eq!(world.claim(lease, ALL).await, [first]);
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    assert_eq!(world.claim(lease, ALL).await, [second]);
    assert_eq!(world.state(first).await, JobState::Running);
}

pub async fn a21_forbid_skips_the_slot_while_one_is_alive(world: &mut World) {
    let schedule = world.create(with(Overlap::Forbid)).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs, [], "it waits, so it is alive");
    world.claim_one(lease).await;
    world.set_time("00:03:00");
    assert_eq!(world.fire().await.jobs, [], "it runs, so it is alive");
    world.complete(lease, first).await;
    world.set_time("00:04:00");
    world.fire_one().await;
    let expected = [
        slot("00:01:00", Decision::Fired, Reason::OnTime),
        slot("00:02:00", Decision::Skipped, Reason::Overlap),
        slot("00:03:00", Decision::Skipped, Reason::Overlap),
        slot("00:04:00", Decision::Fired, Reason::OnTime),
    ];
    assert_eq!(world.ledger(schedule.id).await, expected);
}

pub async fn a21_a_retry_that_waits_counts_as_alive(world: &mut World) {
    let definition = ScheduleDefinition { retry: retry(2, mins(3)), ..with(Overlap::Forbid) };
    world.create(definition).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    let again = world.fail(lease, first).await.expect("a retry follows");
    assert_eq!(world.state(again).await, JobState::Scheduled);
    world.set_time("00:02:00");
    assert_eq!(world.fire().await.jobs, []);
    assert_eq!(world.store().cancel_job(again).await, Ok(punctual_core::store::Cancelled::BeforeStart));
    world.set_time("00:03:00");
    world.fire_one().await;
}

pub async fn a21_replace_closes_what_waits(world: &mut World) {
    world.create(with(Overlap::Replace)).await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    assert_eq!(world.state(first).await, JobState::Cancelled);
    let run = world.closed_run(first).await;
    assert_eq!((run.error_code, run.started_at), (Some(ErrorCode::Replaced), None));
    assert_eq!((run.node_id, run.is_final, run.finished_at), (None, true, clock_time("00:02:00")));
    assert_eq!(world.queue("default").await, [second]);
}

pub async fn a21_replace_asks_what_runs_to_stop_and_waits_for_it(world: &mut World) {
    world.create(with(Overlap::Replace)).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    let Whereabouts::Running(running) = world.job(first).await.whereabouts else { panic!("it runs on") };
    assert_eq!(running.cancel_requested_at, Some(clock_time("00:02:00")));
    let beat = world.store().heartbeat_if_leased(lease).await.expect("the lease holds");
    assert_eq!(beat.cancel_requested, [first]);
    assert_eq!(world.claim(lease, ALL).await, [], "the new one does not overlap the one it replaces");
    let stopped = FinishedRun {
        outcome: Outcome::Cancelled,
        error_code: Some(ErrorCode::Replaced),
        ..FinishedRun::completed(first)
    };
    assert_eq!(world.finish(lease, stopped).await, FinishResult::Closed { retry: None });
    assert_eq!(world.claim(lease, ALL).await, [second]);
}

pub async fn a21_queue_one_lets_at_most_one_wait(world: &mut World) {
    let schedule = world.create(with(Overlap::QueueOne)).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    assert_eq!(world.claim(lease, ALL).await, [], "it waits until the one alive is done");
    world.set_time("00:03:00");
    assert_eq!(world.fire().await.jobs, [], "one waits already");
    world.complete(lease, first).await;
    assert_eq!(world.claim(lease, ALL).await, [second]);
    world.set_time("00:04:00");
    world.fire_one().await;
    let decisions: Vec<_> = world.ledger(schedule.id).await.into_iter().map(|row| (row.3, row.4)).collect();
    let fired = (Decision::Fired, Reason::OnTime);
    assert_eq!(decisions, [fired, fired, (Decision::Skipped, Reason::Overlap), fired]);
}

pub async fn a21_queue_one_makes_up_for_one_slot_only(world: &mut World) {
    let definition = ScheduleDefinition { missed: Missed::all(10), ..with(Overlap::QueueOne) };
    let schedule = world.create(definition).await;
    world.set_time("00:03:00");
    let fired = world.fire().await;
    assert_eq!((fired.jobs.len(), fired.slots_not_run), (1, 2));
    let reasons: Vec<_> = world.ledger(schedule.id).await.into_iter().map(|row| (row.0, row.3)).collect();
    let expected = [("00:01:00", Decision::Fired), ("00:02:00", Decision::Skipped), ("00:03:00", Decision::Skipped)];
    assert_eq!(reasons, expected.map(|(at, decision)| (at.to_owned(), decision)));
}

pub async fn d10_max_concurrent_runs_skips_what_is_too_many(world: &mut World) {
    let definition = ScheduleDefinition { max_concurrent_runs: Some(2), ..with(Overlap::Allow) };
    let schedule = world.create(definition).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    world.set_time("00:02:00");
    world.fire_one().await;
    world.set_time("00:03:00");
    assert_eq!(world.fire().await.jobs, []);
    world.complete(lease, first).await;
    world.set_time("00:04:00");
    world.fire_one().await;
    let skipped = slot("00:03:00", Decision::Skipped, Reason::MaxConcurrentRuns);
    assert_eq!(world.ledger(schedule.id).await[2], skipped);
}

pub async fn a06_jobs_of_a_serial_schedule_run_one_at_a_time_in_order(world: &mut World) {
    let definition = ScheduleDefinition { serial: true, missed: Missed::all(10), ..minutely("serial") };
    let schedule = world.create(definition).await;
    world.set_time("00:04:00");
    let jobs = world.fire().await.jobs;
    assert_eq!(jobs.len(), 4);
    let key = world.job(jobs[0]).await.job.spec.serial_key;
    assert_eq!(key, Some(schedule.id.to_string()), "the key is the schedule's id");
    let nodes = [world.node("a").await, world.node("b").await];
    for (n, job) in jobs.iter().enumerate() {
        let (one, other) = (nodes[n % 2], nodes[(n + 1) % 2]);
        assert_eq!(world.claim(one, ALL).await, [*job], "only the head may be claimed");
        assert_eq!(world.claim(other, ALL).await, [], "not while it runs");
        assert_eq!(world.claim(one, ALL).await, [], "not even by the node that runs it");
        world.complete(one, *job).await;
    }
    assert_eq!(world.claim(nodes[0], ALL).await, []);
}

pub async fn a06_a_triggered_job_of_a_serial_schedule_waits_its_turn(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { serial: true, ..minutely("serial") }).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    let by_hand = world.store().trigger_schedule(schedule.id, ByHand::default()).await.expect("it is triggered");
    assert_eq!(world.claim(lease, ALL).await, []);
    world.complete(lease, first).await;
    assert_eq!(world.claim(lease, ALL).await, [by_hand]);
}

pub async fn a06_a_failed_job_of_a_serial_schedule_frees_its_key(world: &mut World) {
    let definition = ScheduleDefinition { serial: true, retry: retry(2, mins(10)), ..minutely("serial") };
    world.create(definition).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    let again = world.fail(lease, first).await.expect("a retry follows");
    assert_eq!(world.claim(lease, ALL).await, [second], "a retry that waits does not hold the key");
    world.set_time("00:12:00");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert_eq!(world.claim(lease, ALL).await, [], "the key is held by the second");
    world.complete(lease, second).await;
    assert_eq!(world.claim(lease, ALL).await, [again]);
}
