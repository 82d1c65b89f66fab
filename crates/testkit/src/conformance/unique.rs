//! Unique jobs: made once in a period, exactly, also when many ask at once.

use crate::prelude::*;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::job_key::{JobKey, JobKeyMode};
use punctual_core::store::Retention;
use punctual_core::unique::{Enqueued, Unique};
use std::sync::Arc;
use tokio::task::JoinSet;

fn hourly_once(input: &str) -> NewJob {
    NewJob { input: json(input), unique: Some(Unique::for_period(mins(60))), ..job() }
}

fn keyed(key: &str, input: &str) -> NewJob {
    NewJob { input: json(input), unique: Some(Unique::by_key(key, mins(60))), ..job() }
}

async fn once(world: &World, spec: NewJob) -> Enqueued {
    let made = world.store().enqueue_once(vec![spec]).await.expect("an answer");
    assert_eq!(made.len(), 1);
    made[0]
}

async fn made(world: &World, spec: NewJob) -> JobId {
    let Enqueued { id, is_new } = once(world, spec).await;
    assert!(is_new, "it is made");
    id
}

async fn assert_stands(world: &World, spec: NewJob, id: JobId) {
    assert_eq!(once(world, spec).await, Enqueued { id, is_new: false });
}

pub async fn c18_a_unique_job_is_made_once_in_its_period(world: &mut World) {
    let lease = world.node("n").await;
    let first = made(world, hourly_once("1")).await;
    assert_stands(world, hourly_once("1"), first).await;
    let other = made(world, hourly_once("2")).await;
    let elsewhere = made(world, NewJob { queue: "other".into(), ..hourly_once("1") }).await;
    assert_eq!(world.enqueue(hourly_once("1")).await, first, "the usual verb answers alike");
    assert_eq!(world.queue("default").await, [first, other]);
    assert_eq!(world.queue("other").await, [elsewhere]);
    assert_eq!(world.claim(lease, 1).await, [first]);
    assert_stands(world, hourly_once("1"), first).await;
    world.complete(lease, first).await;
    world.reopen().await;
    assert_stands(world, hourly_once("1"), first).await;
    world.set_time("00:59:59");
    assert_stands(world, hourly_once("1"), first).await;
    world.set_time("01:00:00");
    let second = made(world, hourly_once("1")).await;
    world.set_time("01:59:59");
    assert_stands(world, hourly_once("1"), second).await;
}

pub async fn c18_a_unique_key_makes_jobs_the_same_whatever_they_do(world: &mut World) {
    let first = made(world, keyed("report", "1")).await;
    assert_stands(world, keyed("report", "2"), first).await;
    made(world, keyed("other", "1")).await;
    assert_eq!(world.job(first).await.job.spec.input, json("1"));
    let plain = world.enqueue(NewJob { unique: None, ..keyed("report", "1") }).await;
    assert_ne!(plain, first, "a job that does not ask for it is made");
}

pub async fn c18_a_unique_job_without_success_is_made_again(world: &mut World) {
    let lease = world.node("n").await;
    let spec = NewJob { retry: retry(2, SHORTEST_WAIT), ..keyed("k", "1") };
    let first = made(world, spec.clone()).await;
    assert_eq!(world.claim_one(lease).await, first);
    let again = world.fail_and_requeue(lease, first).await;
    assert_stands(world, spec.clone(), again).await;
    assert_eq!(world.claim_one(lease).await, again);
    assert_eq!(world.fail(lease, again).await, None);
    let second = made(world, spec.clone()).await;
    world.store().cancel_job(second).await.expect("it is cancelled");
    let third = made(world, spec.clone()).await;
    // Whoever asks says which states count.
    let states = |states: &[JobState]| {
        let unique = Unique { states: Some(states.to_vec()), ..Unique::by_key("k", mins(60)) };
        NewJob { unique: Some(unique), ..spec.clone() }
    };
    assert_stands(world, states(&[JobState::Queued]), third).await;
    let fourth = made(world, states(&[JobState::Running])).await;
    world.store().cancel_job(fourth).await.expect("it is cancelled");
    assert_stands(world, states(&[JobState::Cancelled]), fourth).await;
}

pub async fn c18_a_batch_with_the_same_unique_job_twice_makes_it_once(world: &mut World) {
    let there = made(world, keyed("there", "1")).await;
    let specs = vec![keyed("a", "1"), job(), keyed("there", "2"), keyed("a", "2"), serial_job("s"), keyed("b", "1")];
    let answers = world.store().enqueue_once(specs).await.expect("an answer");
    let new: Vec<bool> = answers.iter().map(|it| it.is_new).collect();
    assert_eq!(new, [true, true, false, false, true, true]);
    assert_eq!((answers[2].id, answers[3].id), (there, answers[0].id));
    let made = [0, 1, 4, 5].map(|at: usize| answers[at].id);
    assert_eq!(world.queue("default").await, [[there].as_slice(), &made].concat());
    assert_eq!(world.job(answers[0].id).await.job.spec.input, json("1"));
    assert_eq!(world.store().enqueue_once(vec![]).await, Ok(vec![]));
}

pub async fn c18_of_many_who_make_a_unique_job_at_once_exactly_one_does(world: &mut World) {
    let stores = [world.store(), world.second_store().await];
    for round in 0..10 {
        // A key that nobody has used, and one whose period is over.
        world.pass(mins(60));
        let key = if round % 2 == 0 { "again".to_owned() } else { format!("{round}") };
        let spec = |n: usize| keyed(&key, &n.to_string());
        let mut asking = JoinSet::new();
        for n in 0..12 {
            let store = Arc::clone(&stores[n % 2]);
            let batch = if n % 3 == 0 { vec![spec(n)] } else { vec![spec(n), job(), spec(n + 100)] };
            asking.spawn(async move { store.enqueue_once(batch).await });
        }
        let mut answers = Vec::new();
        for answer in asking.join_all().await {
            let answer = answer.expect("an answer");
            answers.push(answer[0]);
            answers.extend(answer.get(2));
        }
        let new: Vec<JobId> = answers.iter().filter(|it| it.is_new).map(|it| it.id).collect();
        assert_eq!(new.len(), 1, "round {round}");
        assert!(answers.iter().all(|it| it.id == new[0]), "round {round}");
    }
}

pub async fn c18_the_edit_of_a_unique_job_stands_for_it(world: &mut World) {
    let first = made(world, keyed("k", "1")).await;
    let edited = world.store().edit_job_if_queued(first, json("2")).await.expect("it is edited");
    assert_stands(world, keyed("k", "3"), edited).await;
}

pub async fn c18_unique_keys_that_are_over_are_forgotten(world: &mut World) {
    let first = made(world, keyed("k", "1")).await;
    made(world, NewJob { unique: Some(Unique::by_key("long", mins(600))), ..job() }).await;
    let everything = |world: &World| Retention::before(world.clock_now(), 100);
    world.pass(mins(59));
    world.store().prune_history(everything(world)).await.expect("a step");
    assert_eq!(world.count("SELECT count(*) FROM {unique_keys}").await, 2);
    assert_stands(world, keyed("k", "1"), first).await;
    world.pass(mins(1));
    world.store().prune_history(everything(world)).await.expect("a step");
    assert_eq!(world.count("SELECT count(*) FROM {unique_keys}").await, 1);
    made(world, keyed("k", "1")).await;
}

pub async fn c18_uniqueness_that_makes_no_sense_is_refused(world: &mut World) {
    let both = NewJob { job_key: Some(JobKey { key: "k".into(), mode: JobKeyMode::Replace }), ..keyed("k", "1") };
    assert_eq!(refusal(world.store().enqueue_once(vec![both]).await).field, "unique");
    let never = NewJob { unique: Some(Unique::for_period(secs(0))), ..job() };
    assert_eq!(refusal(world.store().enqueue_jobs(vec![never]).await).field, "unique.period");
    assert_eq!(world.queue("default").await, []);
}

/// The recipe for batches: calls within a while become one job, at the time of the first, and it takes what all of them
/// left. What comes while it runs becomes the next one.
pub async fn c18_calls_within_a_while_become_one_batch(world: &mut World) {
    let lease = world.node("n").await;
    let flush = |world: &World| NewJob {
        job_key: Some(JobKey { key: "flush".into(), mode: JobKeyMode::PreserveRunAt }),
        run_at: Some(world.clock_now() + secs(5)),
        ..job()
    };
    let mut last = world.enqueue(flush(world)).await;
    for _ in 0..4 {
        world.pass(secs(1));
        last = world.enqueue(flush(world)).await;
    }
    world.set_time("00:00:05");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1), "at the time of the first call");
    assert_eq!(world.claim_one(lease).await, last);
    let next = world.enqueue(flush(world)).await;
    world.complete(lease, last).await;
    world.set_time("00:00:10");
    assert_eq!(world.store().promote_due_jobs(ALL).await, Ok(1));
    assert_eq!(world.queue("default").await, [next]);
}
