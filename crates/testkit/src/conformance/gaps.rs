//! Facts that only a mutant had shown to be missing: rules that stand behind another rule, each seen by itself.

use crate::prelude::*;
use punctual_core::job::{JobState, NewJob};
use punctual_core::order::Move;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::{Overlap, ScheduleDefinition};
use punctual_core::slot::{Decision, Reason};
use punctual_core::store::{FinishResult, FinishedRun, Pruned, Retention, StoreError};

/// A horizon for runs, and one for slots.
fn horizons(runs: &str, slots: &str) -> Retention {
    let (runs_before, slots_before) = (clock_time(runs), clock_time(slots));
    Retention { runs_before, failed_before: runs_before, ..Retention::before(slots_before, ALL) }
}

pub async fn a04_a_slot_has_one_decision_whenever_it_is_made(world: &mut World) {
    let schedule = world.create(minutely("decided")).await;
    let (id, slot_at) = (world.raw.uuid_literal(schedule.id.0), world.raw.time_literal(clock_time("00:01:00")));
    let columns = "schedule_id, slot_at, through, count, decision, reason, decided_at, late_ms, schedule_version";
    let decided = |at: &str| {
        let decided_at = world.raw.time_literal(clock_time(at));
        let row = format!("{id}, {slot_at}, {slot_at}, 1, 'skipped', 'edited', {decided_at}, 0, 1");
        format!("INSERT INTO {{slots}} ({columns}) VALUES ({row})")
    };
    assert_eq!(world.tamper(&decided("00:00:30")).await, Ok(1));
    world.assert_database_refuses(&decided("00:00:40")).await;
    world.set_time("00:01:07");
    assert_eq!(world.fire().await.jobs, [], "it was decided by another, at another time");
    assert_eq!(world.ledger(schedule.id).await, [slot("00:01:00", Decision::Skipped, Reason::Edited)]);
}

pub async fn a06_a_key_is_held_while_its_job_runs_whatever_happens_to_the_rest(world: &mut World) {
    let made = world.enqueue_all(vec![serial_job("k"), serial_job("k"), serial_job("k"), serial_job("k")]).await;
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, [made[0]]);
    let late = world.enqueue(serial_job("k")).await;
    let urgent = world.enqueue(NewJob { priority: 9, ..serial_job("k") }).await;
    world.store().move_job_if_queued(made[3], Move::ToFront).await.expect("it is moved");
    world.store().cancel_job(made[1]).await.expect("it is cancelled");
    let edited = world.store().edit_job_if_queued(urgent, json("[1]")).await.expect("it is replaced");
    let held = [edited, made[3], made[2], late].map(|id| (id, false));
    assert_eq!(world.readiness().await, held, "the key is taken");
    let other = world.enqueue(job()).await;
    assert_eq!(world.claim(lease, ALL).await, [other]);
    world.complete(lease, made[0]).await;
    assert_eq!(world.claim(lease, ALL).await, [edited], "and free when its job has ended");
}

pub async fn d03_a_slot_given_up_ahead_of_its_time_stays_given_up(world: &mut World) {
    let schedule = world.create(hourly("moved")).await;
    world.store().reschedule(schedule.id, clock_time("00:10:00")).await.expect("it is moved");
    world.set_time("00:10:00");
    world.fire_one().await;
    let state = world.schedule(schedule.id).await.state;
    assert_eq!(state.last_slot_at, Some(clock_time("01:00:00")), "the latest decided slot, not the latest fired one");
    assert_eq!(state.fired_through, Some(clock_time("00:10:00")));
    let found = world.store().reconcile_schedules(None, ALL).await.expect("reconciling succeeds");
    assert_eq!(found.replanned, 0, "the plan is sound");
    world.set_time("01:30:00");
    let retention = horizons("00:00:00", "01:20:00");
    assert_eq!(world.store().prune_history(retention).await, Ok(Pruned { slots: 1, ..Pruned::default() }));
    let given_up = slot("01:00:00", Decision::Skipped, Reason::Rescheduled);
    assert_eq!(world.ledger(schedule.id).await, [given_up], "above the watermark the row itself is the proof");
    assert_eq!(world.fire().await.jobs, []);
    world.set_time("02:00:00");
    world.fire_one().await;
}

pub async fn a10_the_ledger_outlives_the_history(world: &mut World) {
    let schedule = world.create(minutely("remembered")).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let job = world.fire_one().await;
    world.claim_one(lease).await;
    world.complete(lease, job).await;
    world.set_time("00:01:30");
    let rows = world.slot_rows(schedule.id).await;
    let retention = horizons("00:01:30", "00:01:00");
    assert_eq!(world.store().prune_history(retention).await, Ok(Pruned { jobs: 1, ..Pruned::default() }));
    assert_eq!(world.store().job(job).await, Ok(None));
    assert_eq!(world.slot_rows(schedule.id).await, rows, "each ledger has a horizon of its own");
    let retention = horizons("00:01:00", "00:01:30");
    assert_eq!(world.store().prune_history(retention).await, Ok(Pruned { slots: 1, ..Pruned::default() }));
    assert!(world.ledger(schedule.id).await.is_empty());
}

pub async fn c09_a_run_that_ended_is_not_overwritten_by_its_own_node(world: &mut World) {
    let ids = world.enqueue_all(vec![job(); 2]).await;
    let lease = world.node("a").await;
    assert_eq!(world.claim(lease, ALL).await, ids);
    // As a restored backup may hold it: the runs have ended, and their node has not heard of it.
    let at = world.raw.time_literal(clock_time("00:00:00"));
    let insert = "INSERT INTO {runs} (job_id, finished_at, outcome, final) VALUES";
    for id in &ids {
        let job_id = world.raw.uuid_literal(id.0);
        assert_eq!(world.tamper(&format!("{insert} ({job_id}, {at}, 'cancelled', TRUE)")).await, Ok(1));
    }
    world.pass(secs(5));
    for late in [FinishedRun::failed(ids[0], ErrorCode::TargetError, "too late"), FinishedRun::completed(ids[1])] {
        assert_eq!(world.finish(lease, late.clone()).await, FinishResult::AlreadyClosed);
        assert_eq!(world.finish(lease, late).await, FinishResult::LostLease, "the claim is gone");
    }
    let outcome = format!("SELECT COUNT(*) FROM {{runs}} WHERE outcome = '{}'", Outcome::Cancelled);
    assert_eq!(world.count(&outcome).await, 2);
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 2);
}

pub async fn c12_ends_that_are_reported_together_are_stored_together_or_not_at_all(world: &mut World) {
    let ids = world.enqueue_all(vec![retried_job(3, SHORTEST_WAIT); 3]).await;
    let lease = world.node("a").await;
    for _ in &ids {
        world.claim_one(lease).await;
    }
    // As nothing but a hand can write it: the second has a retry already, so its failure cannot be stored.
    let (job_id, nobody) = (world.raw.uuid_literal(ids[1].0), world.raw.uuid_literal(nobody()));
    let insert = format!("INSERT INTO {{retries}} (retry_of, job_id) VALUES ({job_id}, {nobody})");
    assert_eq!(world.tamper(&insert).await, Ok(1));
    let mut ends: Vec<_> = ids.iter().map(|id| FinishedRun::completed(*id)).collect();
    ends[1] = FinishedRun::failed(ids[1], ErrorCode::TargetError, "it broke");
    assert!(world.store().finish_runs_if_leased(lease, ends).await.is_err());
    assert_eq!(world.count("SELECT COUNT(*) FROM {runs}").await, 0);
    assert_eq!(world.count("SELECT COUNT(*) FROM {running}").await, 3);
}

pub async fn c12_a_call_that_fails_half_way_leaves_nothing_behind(world: &mut World) {
    world.create(minutely("taken")).await;
    let schedule = world.create(minutely("renamed")).await;
    let before = world.snapshot(&[]).await;
    // The version is put aside before the name turns out to be taken.
    let refused = world.store().update_schedule_if_version(schedule.id, 1, hourly("taken")).await;
    assert!(matches!(refused, Err(StoreError::NameTaken { .. })), "{refused:?}");
    assert_eq!(world.count("SELECT COUNT(*) FROM {schedule_versions}").await, 0);
    assert_eq!(world.snapshot(&[]).await, before);
    let edited = world.store().update_schedule_if_version(schedule.id, 1, hourly("free")).await.expect("an edit");
    assert_eq!(edited.version, 2);
}

pub async fn a26_a_failed_run_of_a_deleted_schedule_is_not_tried_again(world: &mut World) {
    let schedule = world.create(ScheduleDefinition { retry: retry(5, SHORTEST_WAIT), ..minutely("doomed") }).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let running = world.fire_one().await;
    world.claim_one(lease).await;
    world.store().delete_schedule(schedule.id).await.expect("it is deleted");
    assert_eq!(world.fail(lease, running).await, None, "nobody wants it any more");
    assert!(world.closed_run(running).await.is_final);
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 1);
}

pub async fn c04_the_chain_of_an_edited_retry_is_kept_whole(world: &mut World) {
    let lease = world.node("a").await;
    let first = world.enqueue(retried_job(5, SHORTEST_WAIT)).await;
    world.claim_one(lease).await;
    let second = world.fail_and_requeue(lease, first).await;
    let edited = world.store().edit_job_if_queued(second, json("[1]")).await.expect("it is replaced");
    assert_eq!(world.job(edited).await.job.retry_of, Some(first));
    world.set_time("10:00:00");
    let retention = horizons("10:00:00", "00:00:00");
    for _ in 0..3 {
        world.store().prune_history(retention).await.expect("history can be pruned");
    }
    let known = world.store().job(first).await.expect("jobs can be read");
    assert!(known.is_some(), "the retry that took the place of the other is alive");
}

pub async fn c07_the_first_reason_to_stop_a_run_stands(world: &mut World) {
    world.create(ScheduleDefinition { overlap: Overlap::Replace, ..minutely("replaced") }).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    world.store().cancel_job(first).await.expect("it is asked again");
    let stopped = |id| FinishedRun { outcome: Outcome::Cancelled, ..FinishedRun::completed(id) };
    assert_eq!(world.finish(lease, stopped(first)).await, FinishResult::Closed { retry: None });
    assert_eq!(world.closed_run(first).await.error_code, Some(ErrorCode::Replaced));
    assert_eq!(world.claim_one(lease).await, second);
    world.store().cancel_job(second).await.expect("it is asked to stop");
    world.set_time("00:03:00");
    world.fire_one().await;
    assert_eq!(world.finish(lease, stopped(second)).await, FinishResult::Closed { retry: None });
    assert_eq!(world.closed_run(second).await.error_code, Some(ErrorCode::Cancelled));
}

pub async fn c08_a_job_that_was_asked_to_stop_does_not_go_back(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.claim_one(lease).await;
    world.store().cancel_job(id).await.expect("it is asked to stop");
    let back = world.store().give_back_if_leased(lease, vec![id]).await;
    assert_eq!(back, Ok(Vec::new()), "in the queue, the request would be forgotten");
    assert_eq!(world.state(id).await, JobState::Running);
    let beat = world.store().heartbeat_if_leased(lease).await.expect("the lease holds");
    assert_eq!(beat.cancel_requested, [id]);
}
