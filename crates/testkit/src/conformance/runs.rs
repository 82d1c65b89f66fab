//! Runs: how they end, what follows, what they keep, and that nothing changes them afterwards.

use crate::prelude::*;
use punctual_core::closing::Again;
use punctual_core::id::JobId;
use punctual_core::job::{Artifact, JobState, NewJob};
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::store::{FinishResult, FinishedRun, Lease, StoreError};

async fn claimed(world: &World, job: NewJob) -> (Lease, JobId) {
    let lease = world.node("a").await;
    let id = world.enqueue(job).await;
    assert_eq!(world.claim(lease, ALL).await, [id]);
    (lease, id)
}

pub async fn c13_a_run_keeps_everything_that_was_reported(world: &mut World) {
    let (lease, id) = claimed(world, retried_job(1, SHORTEST_WAIT)).await;
    world.pass(secs(9));
    let report = FinishedRun {
        outcome: Outcome::Failed,
        error_code: Some(ErrorCode::TargetError),
        error: Some("Ärger:\n\t'quoted' \"twice\" 🔥".to_owned()),
        exit_code: Some(-7),
        output: Some(json(r#"{"z":1.0,"a":12345678901234567890123}"#)),
        log_ref: Some("logs/1".to_owned()),
        usage: Some(json(r#"{"max_memory_bytes":1.0}"#)),
        ..FinishedRun::completed(id)
    };
    assert_eq!(world.finish(lease, report.clone()).await, FinishResult::Closed { retry: None });
    world.reopen().await;
    let run = world.closed_run(id).await;
    assert_eq!((run.node_id, run.started_at), (Some(lease.node_id), Some(clock_time("00:00:00"))));
    assert_eq!((run.finished_at, run.outcome), (clock_time("00:00:09"), Outcome::Failed));
    assert_eq!((run.error_code, run.error), (report.error_code, report.error));
    assert_eq!((run.exit_code, run.output, run.log_ref), (report.exit_code, report.output, report.log_ref));
    assert_eq!((run.is_final, run.usage), (true, report.usage));
    assert_eq!(world.state(id).await, JobState::Failed);
}

pub async fn c13_of_a_large_batch_every_end_is_judged_by_itself(world: &mut World) {
    let schedule = world.create(minutely("s")).await;
    let plain = world.enqueue_all(vec![job(); 100]).await;
    let serial = world.enqueue_all(vec![serial_job("k"); 2]).await;
    let lost = world.enqueue(job()).await;
    world.set_time("00:01:00");
    let (lease, fired) = (world.node("a").await, world.fire_one().await);
    assert_eq!(world.claim(lease, ALL).await.len(), 103);
    world.store().give_back_if_leased(lease, vec![lost]).await.expect("it is given back");
    let order = [&plain[..50], &[serial[0], lost, plain[0], fired], &plain[50..]].concat();
    let output = |id: JobId| (id != plain[7]).then(|| json(&format!("\"{id}\"")));
    let reports = order.iter().map(|id| FinishedRun { output: output(*id), ..FinishedRun::completed(*id) });
    let results = world.store().finish_runs_if_leased(lease, reports.collect()).await.expect("it is answered");
    for (at, (id, result)) in order.iter().zip(&results).enumerate() {
        let expected =
            if at == 51 || at == 52 { FinishResult::LostLease } else { FinishResult::Closed { retry: None } };
        assert_eq!((at, result), (at, &expected));
        if *id != lost {
            assert_eq!(world.closed_run(*id).await.output, output(*id));
        }
    }
    assert_eq!(world.schedule(schedule.id).await.results.last_outcome, Some(Outcome::Completed));
    assert_eq!(world.claim(lease, ALL).await, [serial[1], lost], "the next of the key is free");
    let reports = plain.iter().map(|id| FinishedRun::completed(*id)).collect();
    let again = world.store().finish_runs_if_leased(lease, reports).await.expect("it is answered");
    assert_eq!(again, vec![FinishResult::LostLease; 100]);
}

pub async fn c13_every_outcome_and_error_code_can_be_kept(world: &mut World) {
    let lease = world.node("a").await;
    for code in ErrorCode::ALL {
        let id = world.enqueue(retried_job(1, SHORTEST_WAIT)).await;
        world.claim_one(lease).await;
        let report = FinishedRun::failed(id, *code, "told");
        assert!(matches!(world.finish(lease, report).await, FinishResult::Closed { .. }));
        assert_eq!(world.closed_run(id).await.error_code, Some(*code));
        for retry in world.queue("default").await {
            world.store().cancel_job(retry).await.expect("its retry is in the way");
        }
    }
    for outcome in Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Failed) {
        let id = world.enqueue(job()).await;
        world.claim_one(lease).await;
        let report = FinishedRun { outcome: *outcome, ..FinishedRun::completed(id) };
        assert_eq!(world.finish(lease, report).await, FinishResult::Closed { retry: None });
        assert_eq!(world.closed_run(id).await.outcome, *outcome);
    }
}

fn artifact(name: &str, size_bytes: u64) -> Artifact {
    Artifact { name: name.to_owned(), location: format!("file:{name}"), size_bytes, sha256: "ab".repeat(32) }
}

pub async fn c13_artifacts_only_grow_and_keep_their_order(world: &mut World) {
    let (lease, id) = claimed(world, job()).await;
    let kept = [artifact("z", 1), artifact("a", u64::from(u32::MAX) * 4), artifact("z", 0), artifact("m", 3)];
    let store = world.store();
    store.add_artifacts_if_leased(lease, id, kept[..2].to_vec()).await.expect("they are added");
    store.add_artifacts_if_leased(lease, id, Vec::new()).await.expect("nothing is added");
    store.add_artifacts_if_leased(lease, id, kept[2..].to_vec()).await.expect("they are added");
    assert_eq!(store.artifacts(id).await, Ok(kept.to_vec()));
    world.complete(lease, id).await;
    let late = store.add_artifacts_if_leased(lease, id, vec![artifact("late", 1)]).await;
    assert_eq!(late, Err(StoreError::LostLease), "a run that has ended takes no more");
    drop(store);
    world.reopen().await;
    assert_eq!(world.store().artifacts(id).await, Ok(kept.to_vec()));
    assert_eq!(world.store().artifacts(JobId(nobody())).await, Ok(Vec::new()));
}

pub async fn c13_the_database_refuses_to_change_artifacts(world: &mut World) {
    let (lease, id) = claimed(world, job()).await;
    world.store().add_artifacts_if_leased(lease, id, vec![artifact("a", 1)]).await.expect("it is added");
    for _ in 0..2 {
        world.assert_database_refuses("UPDATE {artifacts} SET location = 'elsewhere'").await;
        world.assert_database_refuses("DELETE FROM {artifacts}").await;
        if world.state(id).await == JobState::Running {
            world.complete(lease, id).await;
        }
    }
    assert_eq!(world.store().artifacts(id).await, Ok(vec![artifact("a", 1)]));
}

pub async fn c03_the_database_refuses_to_change_a_job(world: &mut World) {
    let schedule = world.create(minutely("fixed")).await;
    let queued = world.enqueue(job()).await;
    world.set_time("00:01:00");
    let (lease, fired) = (world.node("a").await, world.fire_one().await);
    world.claim(lease, ALL).await;
    let before = world.snapshot(&[queued, fired]).await;
    for assignment in ["input = '[]'", "priority = 9", "attempt = 7", "created_at = created_at"] {
        world.assert_database_refuses(&format!("UPDATE {{jobs}} SET {assignment}")).await;
    }
    world.assert_database_refuses("DELETE FROM {jobs}").await;
    world.complete(lease, queued).await;
    let id = world.raw.uuid_literal(queued.0);
    world.assert_database_refuses(&format!("DELETE FROM {{jobs}} WHERE id = {id}")).await;
    let after = world.snapshot(&[queued, fired]).await;
    assert_eq!((after.jobs, after.slots), (before.jobs, before.slots));
    assert_eq!(world.schedule(schedule.id).await.state.last_job_id, Some(fired));
}

pub async fn c03_the_database_refuses_to_change_a_run(world: &mut World) {
    let (lease, id) = claimed(world, retried_job(1, SHORTEST_WAIT)).await;
    world.fail(lease, id).await;
    let before = world.closed_run(id).await;
    for assignment in ["error = 'forged'", "outcome = 'completed', error_code = NULL", "finished_at = finished_at"] {
        world.assert_database_refuses(&format!("UPDATE {{runs}} SET {assignment}")).await;
    }
    world.assert_database_refuses("DELETE FROM {runs}").await;
    assert_eq!(world.closed_run(id).await, before);
}

pub async fn c03_the_database_refuses_to_change_the_slot_ledger(world: &mut World) {
    let schedule = world.create(minutely("fixed")).await;
    world.set_time("00:03:00");
    world.fire_one().await;
    let before = world.slot_rows(schedule.id).await;
    for assignment in ["decision = 'missed', job_id = NULL", "reason = 'paused'", "late_ms = 0", "count = count"] {
        world.assert_database_refuses(&format!("UPDATE {{slots}} SET {assignment}")).await;
    }
    world.assert_database_refuses("DELETE FROM {slots}").await;
    assert_eq!(world.slot_rows(schedule.id).await, before);
}

pub async fn c03_what_was_fired_through_never_goes_back(world: &mut World) {
    let schedule = world.create(minutely("fixed")).await;
    world.set_time("00:03:00");
    world.fire_one().await;
    let earlier = world.raw.time_literal(clock_time("00:01:00"));
    for value in [earlier.as_str(), "NULL"] {
        world.assert_database_refuses(&format!("UPDATE {{schedule_state}} SET fired_through = {value}")).await;
    }
    assert_eq!(world.schedule(schedule.id).await.state.fired_through, Some(clock_time("00:03:00")));
}

async fn insert_run(world: &World, id: JobId, outcome: &str, code: &str) -> Result<u64, String> {
    let (job, at) = (world.raw.uuid_literal(id.0), world.raw.time_literal(clock_time("00:00:00")));
    let columns = "job_id, finished_at, outcome, error_code, final";
    world.tamper(&format!("INSERT INTO {{runs}} ({columns}) VALUES ({job}, {at}, {outcome}, {code}, TRUE)")).await
}

pub async fn a20_the_database_knows_the_closed_sets(world: &mut World) {
    let made = world.enqueue_all(vec![job(); 2]).await;
    for (outcome, code) in [("'failed'", "'oops'"), ("'failed'", "''"), ("'success'", "NULL"), ("'failed'", "NULL")] {
        let refused = insert_run(world, made[0], outcome, code).await;
        assert!(refused.is_err(), "the database took {outcome} with {code}");
    }
    assert_eq!(insert_run(world, made[0], "'failed'", "'internal'").await, Ok(1), "only the words were wrong");
    let schedule = world.create(minutely("closed")).await;
    let id = world.raw.uuid_literal(schedule.id.0);
    for assignment in ["overlap = 'sometimes'", "source = 'dream'"] {
        world.assert_database_refuses(&format!("UPDATE {{schedules}} SET {assignment} WHERE id = {id}")).await;
    }
}

pub async fn c04_a_retry_is_a_new_job_at_the_end_of_a_chain(world: &mut World) {
    let spec = NewJob { priority: 3, input: json("[7]"), serial_key: Some("k".to_owned()), ..retried_job(3, secs(10)) };
    let (lease, first) = claimed(world, spec.clone()).await;
    world.set_time("00:00:01");
    let second = world.fail(lease, first).await.expect("a retry follows");
    let view = world.job(second).await;
    assert_eq!((view.job.retry_of, view.job.root_job_id), (Some(first), first));
    assert_eq!((view.job.attempt, view.job.failures, view.job.interruptions), (2, 1, 0));
    assert_eq!((view.job.created_at, view.job.chain_began_at), (clock_time("00:00:01"), clock_time("00:00:00")));
    assert_eq!((view.job.spec.trigger, view.state()), (Trigger::Retry, JobState::Scheduled));
    assert_eq!((&view.job.spec.input, view.job.spec.priority), (&spec.input, 3));
    assert_eq!((&view.job.spec.serial_key, &view.job.spec.retry), (&spec.serial_key, &spec.retry));
    assert_eq!(world.store().next_due_in().await, Ok(Some(secs(10))));
    assert!(!world.closed_run(first).await.is_final, "a retry follows");
    world.set_time("00:00:11");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    world.claim_one(lease).await;
    let third = world.fail(lease, second).await.expect("a retry follows");
    let job = world.job(third).await.job;
    assert_eq!((job.retry_of, job.root_job_id, job.attempt, job.failures), (Some(second), first, 3, 2));
    world.set_time("00:00:21");
    world.store().promote_due_jobs(ALL).await.expect("it is promoted");
    world.claim_one(lease).await;
    assert_eq!(world.fail(lease, third).await, None, "three attempts were allowed");
    assert!(world.closed_run(third).await.is_final);
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 3);
}

pub async fn c04_a_job_of_a_schedule_is_retried_for_its_slot(world: &mut World) {
    let definition =
        punctual_core::schedule::ScheduleDefinition { retry: retry(2, SHORTEST_WAIT), ..minutely("retried") };
    let schedule = world.create(definition).await;
    world.set_time("00:01:00");
    let lease = world.node("a").await;
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    let again = world.fail(lease, first).await.expect("a retry follows");
    let job = world.job(again).await.job;
    assert_eq!((job.schedule_id, job.slot_at), (Some(schedule.id), Some(clock_time("00:01:00"))));
    assert_eq!(world.state(again).await, JobState::Scheduled);
    let jobs = world.store().schedule_jobs(schedule.id, None, ALL).await.expect("its jobs can be read");
    assert_eq!(jobs.iter().map(|view| view.job.id).collect::<Vec<_>>(), [again, first]);
    assert_eq!(world.ledger(schedule.id).await.len(), 1, "a retry is no slot");
}

pub async fn c04_a_run_is_finished_once(world: &mut World) {
    let (lease, id) = claimed(world, retried_job(3, SHORTEST_WAIT)).await;
    let again = world.fail(lease, id).await.expect("a retry follows");
    let before = world.closed_run(id).await;
    for report in [FinishedRun::completed(id), FinishedRun::failed(id, ErrorCode::Timeout, "again")] {
        assert_eq!(world.finish(lease, report).await, FinishResult::LostLease);
    }
    assert_eq!(world.closed_run(id).await, before);
    assert_eq!(world.state(again).await, JobState::Scheduled);
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 2, "at most one retry for each job");
}

pub async fn c04_one_report_twice_in_a_batch_closes_once(world: &mut World) {
    let (lease, id) = claimed(world, retried_job(3, SHORTEST_WAIT)).await;
    let report = FinishedRun::failed(id, ErrorCode::TargetError, "it broke");
    let results = world.store().finish_runs_if_leased(lease, vec![report.clone(), report]).await.expect("taken");
    assert!(matches!(results[..], [FinishResult::Closed { retry: Some(_) }, FinishResult::LostLease]), "{results:?}");
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 2);
}

pub async fn c04_interruptions_have_a_budget_of_their_own(world: &mut World) {
    let policy = RetryPolicy { max_interruptions: 2, ..retry(2, SHORTEST_WAIT) };
    let (lease, mut id) = claimed(world, NewJob { retry: policy, ..job() }).await;
    let mut seen = Vec::new();
    for code in [ErrorCode::Interrupted, ErrorCode::TargetError, ErrorCode::NodeLost, ErrorCode::Interrupted] {
        let result = world.finish(lease, FinishedRun::failed(id, code, "told")).await;
        let FinishResult::Closed { retry } = result else { panic!("the lease holds") };
        assert_eq!(world.closed_run(id).await.is_final, retry.is_none());
        let Some(next) = retry else { break };
        let job = world.job(next).await.job;
        seen.push((job.attempt, job.failures, job.interruptions));
        id = next;
        world.pass(SHORTEST_WAIT);
        world.store().promote_due_jobs(ALL).await.expect("promoting succeeds");
        assert_eq!(world.claim(lease, ALL).await, [id]);
    }
    assert_eq!(seen, [(2, 0, 1), (3, 1, 1), (4, 1, 2)], "the third interruption ended it");
}

pub async fn c04_what_cannot_be_helped_is_not_tried_again(world: &mut World) {
    let lease = world.node("a").await;
    for code in ErrorCode::ALL {
        let id = world.enqueue(retried_job(5, SHORTEST_WAIT)).await;
        assert_eq!(world.claim(lease, ALL).await, [id]);
        let report = FinishedRun::failed(id, *code, "told");
        let FinishResult::Closed { retry } = world.finish(lease, report).await else { panic!("the lease holds") };
        let helps = matches!(
            code.as_str(),
            "target_error" | "bad_output" | "timeout" | "node_lost" | "interrupted" | "no_executor" | "internal"
        );
        assert_eq!(retry.is_some(), helps, "{code}");
        if let Some(retry) = retry {
            world.store().cancel_job(retry).await.expect("it is in the way");
        }
    }
}

pub async fn c04_an_old_chain_is_not_continued(world: &mut World) {
    let policy = RetryPolicy { max_age: Some(secs(30)), ..retry(9, secs(10)) };
    let (lease, first) = claimed(world, NewJob { retry: policy, ..job() }).await;
    world.set_time("00:00:20");
    let second = world.fail(lease, first).await.expect("at 30 s it is just young enough");
    world.set_time("00:00:30");
    world.store().promote_due_jobs(ALL).await.expect("it is promoted");
    world.claim_one(lease).await;
    assert_eq!(world.fail(lease, second).await, None);
    assert!(world.closed_run(second).await.is_final);
}

pub async fn c04_no_retry_means_one_attempt_whatever_ended_it(world: &mut World) {
    let lease = world.node("a").await;
    for code in [ErrorCode::TargetError, ErrorCode::Timeout, ErrorCode::Interrupted, ErrorCode::NodeLost] {
        let id = world.enqueue(NewJob { retry: RetryPolicy::none(), ..job() }).await;
        world.claim_one(lease).await;
        let end = world.finish(lease, FinishedRun::failed(id, code, "told")).await;
        assert_eq!(end, FinishResult::Closed { retry: None }, "{code}");
        assert!(world.closed_run(id).await.is_final);
    }
}

pub async fn c04_waits_grow_and_are_shortened_by_at_most_a_quarter(world: &mut World) {
    let policy = RetryPolicy { base: secs(8), max: secs(16), max_attempts: 5, ..RetryPolicy::default() };
    let (lease, mut id) = claimed(world, NewJob { retry: policy, ..job() }).await;
    for longest in [8, 16, 16] {
        let next = world.fail(lease, id).await.expect("a retry follows");
        let due = world.store().next_due_in().await.expect("it can be asked").expect("the retry waits");
        assert!(due <= secs(longest) && due >= secs(longest) * 3 / 4, "{due} of {longest} s");
        world.pass(due);
        world.store().promote_due_jobs(ALL).await.expect("it is promoted");
        assert_eq!(world.claim(lease, ALL).await, [next]);
        id = next;
    }
}

pub async fn c04_a_completed_run_is_the_end(world: &mut World) {
    let (lease, id) = claimed(world, retried_job(9, SHORTEST_WAIT)).await;
    world.complete(lease, id).await;
    assert!(world.closed_run(id).await.is_final, "no retry follows");
    assert!(world.queue("default").await.is_empty());
    assert_eq!(world.store().next_due_in().await, Ok(None));
}

pub async fn c04_a_cancelled_run_is_not_tried_again(world: &mut World) {
    let (lease, id) = claimed(world, retried_job(9, SHORTEST_WAIT)).await;
    world.store().cancel_job(id).await.expect("it is asked to stop");
    let stopped = FinishedRun {
        outcome: Outcome::Cancelled,
        error_code: Some(ErrorCode::Cancelled),
        ..FinishedRun::completed(id)
    };
    assert_eq!(world.finish(lease, stopped).await, FinishResult::Closed { retry: None });
    assert_eq!(world.state(id).await, JobState::Cancelled);
    assert!(world.closed_run(id).await.is_final);
}

pub async fn c13_a_large_batch_of_ends_is_answered_in_its_order(world: &mut World) {
    let lease = world.node("a").await;
    let made = world.enqueue_all(vec![retried_job(2, SHORTEST_WAIT); 300]).await;
    assert_eq!(world.claim(lease, ALL).await, made);
    let reports = made.iter().enumerate().map(|(n, id)| match n % 3 {
        0 => FinishedRun::completed(*id),
        1 => FinishedRun::failed(*id, ErrorCode::TargetError, format!("number {n}")),
        _ => FinishedRun::completed(JobId(nobody())),
    });
    let results = world.store().finish_runs_if_leased(lease, reports.collect()).await.expect("the reports are taken");
    for (n, result) in results.iter().enumerate() {
        match n % 3 {
            0 => assert_eq!(*result, FinishResult::Closed { retry: None }),
            1 => assert!(matches!(result, FinishResult::Closed { retry: Some(_) })),
            _ => assert_eq!(*result, FinishResult::LostLease),
        }
    }
    assert_eq!(results.len(), 300);
    assert_eq!(world.count("SELECT COUNT(*) FROM {running}").await, 100);
}

async fn end_with(world: &World, lease: Lease, id: JobId, again: Again) -> Option<JobId> {
    let report = FinishedRun { again, ..FinishedRun::failed(id, ErrorCode::TargetError, "it broke") };
    match world.finish(lease, report).await {
        FinishResult::Closed { retry } => retry,
        other => panic!("the lease holds, and the run has not ended: {other:?}"),
    }
}

pub async fn c04_a_target_can_put_its_retry_off_or_give_up(world: &mut World) {
    let (lease, first) = claimed(world, retried_job(9, secs(10))).await;
    let second = end_with(world, lease, first, Again::After(secs(60))).await.expect("a retry follows");
    assert_eq!(world.store().next_due_in().await, Ok(Some(secs(60))), "not before what the target asked for");
    world.pass(secs(60));
    world.store().promote_due_jobs(ALL).await.expect("it is promoted");
    world.claim_one(lease).await;
    let third = end_with(world, lease, second, Again::After(secs(1))).await.expect("a retry follows");
    assert_eq!(world.store().next_due_in().await, Ok(Some(secs(10))), "nor before what the policy says");
    world.pass(secs(10));
    world.store().promote_due_jobs(ALL).await.expect("it is promoted");
    world.claim_one(lease).await;
    assert_eq!(end_with(world, lease, third, Again::Never).await, None);
    let run = world.closed_run(third).await;
    assert_eq!((run.outcome, run.error_code, run.is_final), (Outcome::Failed, Some(ErrorCode::TargetError), true));
}

pub async fn c04_a_snooze_is_a_skipped_run_that_charges_nothing(world: &mut World) {
    let (lease, first) = claimed(world, retried_job(1, secs(10))).await;
    let result = world.finish(lease, FinishedRun::snoozed(first, secs(30), "the file is not there yet")).await;
    let FinishResult::Closed { retry: Some(second) } = result else { panic!("it goes on: {result:?}") };
    let run = world.closed_run(first).await;
    assert_eq!((run.outcome, run.error_code, run.is_final), (Outcome::Skipped, None, false));
    assert_eq!(run.error.as_deref(), Some("the file is not there yet"));
    let job = world.job(second).await.job;
    assert_eq!((job.retry_of, job.attempt, job.failures, job.interruptions), (Some(first), 2, 0, 0));
    assert_eq!((job.spec.trigger, job.spec.trigger_detail.as_deref()), (Trigger::Retry, Some("snooze")));
    assert_eq!(world.store().next_due_in().await, Ok(Some(secs(30))));
    world.pass(secs(30));
    world.store().promote_due_jobs(ALL).await.expect("it is promoted");
    world.claim_one(lease).await;
    assert_eq!(world.fail(lease, second).await, None, "the one attempt was still there, and is used up now");
}

pub async fn c04_a_snooze_ends_with_the_age_of_its_chain_or_with_a_cancel(world: &mut World) {
    let policy = RetryPolicy { max_age: Some(secs(60)), ..retry(9, secs(10)) };
    let (lease, first) = claimed(world, NewJob { retry: policy, ..job() }).await;
    let late = world.finish(lease, FinishedRun::snoozed(first, secs(61), "not yet")).await;
    assert_eq!(late, FinishResult::Closed { retry: None });
    let run = world.closed_run(first).await;
    assert_eq!((run.outcome, run.error_code, run.is_final), (Outcome::Failed, Some(ErrorCode::Timeout), true));
    assert!(run.error.expect("it says why").contains("not yet"));
    let second = world.enqueue(job()).await;
    world.claim_one(lease).await;
    world.store().cancel_job(second).await.expect("it is asked to stop");
    let cancelled = world.finish(lease, FinishedRun::snoozed(second, secs(5), "not yet")).await;
    assert_eq!(cancelled, FinishResult::Closed { retry: None }, "nobody wants it any more");
    let run = world.closed_run(second).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Cancelled, Some(ErrorCode::Cancelled)));
}
