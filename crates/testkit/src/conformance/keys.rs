//! Job keys: only one job of a key waits at a time; and chains followed to their end.

use crate::prelude::*;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob, Whereabouts};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::run::ErrorCode;
use punctual_core::store::Retention;

fn keyed(key: &str, mode: JobKeyMode, input: &str) -> NewJob {
    let job_key = Some(JobKey { key: key.to_owned(), mode });
    NewJob { job_key, input: json(input), ..job() }
}

fn replacing(key: &str, input: &str) -> NewJob {
    keyed(key, JobKeyMode::Replace, input)
}

async fn input(world: &World, id: JobId) -> String {
    world.job(id).await.job.spec.input.as_str().to_owned()
}

pub async fn c18_a_job_keeps_its_key_and_the_mode_of_it(world: &mut World) {
    for mode in JobKeyMode::ALL {
        let spec = NewJob { owner: Some("ada".to_owned()), ..keyed(mode.as_str(), *mode, "1") };
        let id = world.enqueue(spec.clone()).await;
        world.reopen().await;
        assert_eq!(world.job(id).await.job.spec, spec);
    }
}

pub async fn c18_the_latest_call_under_a_key_replaces_what_waits(world: &mut World) {
    let first = world.enqueue(replacing("k", "1")).await;
    let other = world.enqueue(replacing("another", "1")).await;
    let second = world.enqueue(replacing("k", "2")).await;
    assert_eq!(world.queue("default").await, [other, second]);
    let run = world.closed_run(first).await;
    assert_eq!((run.error_code, run.started_at, run.is_final), (Some(ErrorCode::Replaced), None, true));
    assert_eq!(input(world, second).await, "2");
}

pub async fn c18_a_call_again_and_again_runs_once_after_the_last(world: &mut World) {
    let mut last = None;
    for minute in 1..=5 {
        let run_at = Some(clock_time(&format!("00:{:02}:00", minute + 10)));
        last = Some(world.enqueue(NewJob { run_at, ..replacing("debounce", "1") }).await);
        world.pass(mins(1));
    }
    world.set_time("00:14:59");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(0));
    world.set_time("00:15:00");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert_eq!(world.queue("default").await, [last.expect("five calls were made")]);
}

pub async fn c18_a_key_may_keep_the_time_that_was_planned(world: &mut World) {
    let at = |text| Some(clock_time(text));
    let throttled = |run_at, input| NewJob { run_at, ..keyed("k", JobKeyMode::PreserveRunAt, input) };
    let first = world.enqueue(throttled(at("00:10:00"), "1")).await;
    let second = world.enqueue(throttled(at("00:20:00"), "2")).await;
    assert_eq!(world.state(first).await, JobState::Cancelled);
    assert_eq!(world.job(second).await.whereabouts, Whereabouts::Delayed { run_at: at("00:10:00") });
    assert_eq!(input(world, second).await, "2");
    world.set_time("00:10:00");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    let third = world.enqueue(throttled(at("00:30:00"), "3")).await;
    assert_eq!(world.queue("default").await, [third], "its time had come, and stays");
}

pub async fn c18_a_key_may_leave_what_is_there(world: &mut World) {
    let lease = world.node("n").await;
    let deduped = |input| keyed("k", JobKeyMode::UnsafeDedupe, input);
    let first = world.enqueue(deduped("1")).await;
    assert_eq!(world.enqueue(deduped("2")).await, first, "it waits");
    assert_eq!(world.claim_one(lease).await, first);
    assert_eq!(world.enqueue(deduped("3")).await, first, "it runs");
    assert_eq!(input(world, first).await, "1");
    world.complete(lease, first).await;
    let next = world.enqueue(deduped("4")).await;
    assert_ne!(next, first, "it has ended, and the key is free");
    assert_eq!(world.queue("default").await, [next]);
}

pub async fn c18_what_runs_is_never_replaced(world: &mut World) {
    let lease = world.node("n").await;
    let first = world.enqueue(replacing("k", "1")).await;
    assert_eq!(world.claim_one(lease).await, first);
    let second = world.enqueue(replacing("k", "2")).await;
    assert_eq!((world.state(first).await, world.state(second).await), (JobState::Running, JobState::Queued));
    world.complete(lease, first).await;
    assert_eq!(world.state(first).await, JobState::Completed);
}

pub async fn c18_a_retry_holds_the_key_of_its_chain(world: &mut World) {
    let lease = world.node("n").await;
    let first = world.enqueue(NewJob { retry: retry(5, mins(1)), ..replacing("k", "1") }).await;
    assert_eq!(world.claim_one(lease).await, first);
    let retry = world.fail(lease, first).await.expect("a retry follows");
    assert_eq!(world.enqueue(keyed("k", JobKeyMode::UnsafeDedupe, "2")).await, retry);
    let second = world.enqueue(replacing("k", "3")).await;
    assert_eq!(world.closed_run(retry).await.error_code, Some(ErrorCode::Replaced));
    assert_eq!(world.queue("default").await, [second]);
}

pub async fn c18_a_job_that_takes_the_place_of_another_holds_its_key(world: &mut World) {
    let first = world.enqueue(replacing("k", "1")).await;
    let edited = world.store().edit_job_if_queued(first, json("2")).await.expect("a queued job is edited");
    assert_eq!(world.enqueue(keyed("k", JobKeyMode::UnsafeDedupe, "3")).await, edited);
    let last = world.enqueue(replacing("k", "4")).await;
    assert_eq!(world.queue("default").await, [last]);
}

pub async fn a06_replacing_a_job_by_its_key_frees_its_serial_key(world: &mut World) {
    let serial = |key: &str, serial: &str| NewJob { serial_key: Some(serial.to_owned()), ..replacing(key, "1") };
    let first = world.enqueue(serial("k", "s")).await;
    let waiting = world.enqueue(serial("l", "s")).await;
    assert_eq!(world.readiness().await, [(first, true), (waiting, false)]);
    let moved = world.enqueue(serial("k", "t")).await;
    assert_eq!(world.readiness().await, [(waiting, true), (moved, true)]);
}

pub async fn c12_a_batch_may_use_a_key_once(world: &mut World) {
    let waiting = world.enqueue(replacing("k", "0")).await;
    let twice = vec![job(), replacing("k", "1"), replacing("k", "2")];
    assert_eq!(refusal(world.store().enqueue_jobs(twice).await).field, "job_key");
    assert_eq!(refusal(world.store().enqueue_jobs(vec![replacing("", "1")]).await).field, "job_key");
    assert_eq!(world.queue("default").await, [waiting], "nothing of a refused batch is there");
    let mixed = world.enqueue_all(vec![job(), replacing("k", "1"), replacing("l", "2"), job()]).await;
    assert_eq!(world.queue("default").await, mixed);
}

pub async fn c18_of_many_who_use_one_key_at_once_one_job_waits(world: &mut World) {
    let calls: Vec<_> = (0..16)
        .map(|n| {
            let store = world.store();
            tokio::spawn(async move { store.enqueue_jobs(vec![replacing("k", &n.to_string())]).await })
        })
        .collect();
    for call in calls {
        call.await.expect("it does not panic").expect("it is queued");
    }
    assert_eq!(world.queue("default").await.len(), 1);
    assert_eq!(world.count("SELECT count(*) FROM {runs} WHERE error_code = 'replaced'").await, 15);
}

pub async fn c18_a_key_is_forgotten_with_its_job(world: &mut World) {
    let lease = world.node("n").await;
    let old = world.enqueue(replacing("k", "1")).await;
    assert_eq!(world.claim_one(lease).await, old);
    world.complete(lease, old).await;
    world.pass(mins(60));
    let now = clock_time("01:00:00");
    let pruned = world.store().prune_history(Retention::before(now, ALL)).await;
    assert_eq!(pruned.expect("history is forgotten").jobs, 1);
    assert_eq!(world.count("SELECT count(*) FROM {job_keys}").await, 0);
    let new = world.enqueue(keyed("k", JobKeyMode::UnsafeDedupe, "2")).await;
    assert_eq!(world.queue("default").await, [new]);
}

pub async fn c04_a_chain_is_followed_to_its_last_retry(world: &mut World) {
    let lease = world.node("n").await;
    let first = world.enqueue(retried_job(3, SHORTEST_WAIT)).await;
    let end = |id| {
        let store = world.store();
        async move { store.chain_end(id).await.expect("chains can be read").map(|view| (view.job.id, view.state())) }
    };
    assert_eq!(end(first).await, Some((first, JobState::Queued)));
    let mut last = first;
    for _ in 0..2 {
        assert_eq!(world.claim_one(lease).await, last);
        last = world.fail_and_requeue(lease, last).await;
        assert_eq!(end(first).await, Some((last, JobState::Queued)));
    }
    assert_eq!(world.claim_one(lease).await, last);
    assert_eq!(world.fail(lease, last).await, None);
    assert_eq!(end(first).await, Some((last, JobState::Failed)));
    assert_eq!(end(last).await, Some((last, JobState::Failed)));
    assert_eq!(end(JobId(nobody())).await, None);
}
