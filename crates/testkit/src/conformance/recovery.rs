//! Recovery: what a lost node left is judged once, and the node that comes back too late changes nothing.

use crate::prelude::*;
use punctual_core::job::{JobState, NewJob};
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{ErrorCode, Outcome, Trigger};
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{FinishResult, FinishedRun, LostNode, Recovered, StoreError};

pub async fn c09_an_unfinished_run_is_failed_as_node_lost_and_retried(world: &mut World) {
    let id = world.enqueue(retried_job(1, secs(60))).await;
    let lease = world.node("lost").await;
    world.claim_one(lease).await;
    world.set_time("00:00:20");
    let recovered = world.recover(lease).await;
    assert_eq!((recovered.nodes, recovered.closed.as_slice()), (1, [id].as_slice()));
    let run = world.closed_run(id).await;
    assert_eq!((run.outcome, run.error_code), (Outcome::Failed, Some(ErrorCode::NodeLost)));
    assert_eq!((run.node_id, run.started_at), (Some(lease.node_id), Some(clock_time("00:00:00"))));
    assert_eq!((run.finished_at, run.is_final), (clock_time("00:00:20"), false));
    assert_eq!(recovered.retries.len(), 1);
    let retry = world.job(recovered.retries[0]).await;
    assert_eq!((retry.job.retry_of, retry.job.attempt), (Some(id), 2));
    assert_eq!((retry.job.failures, retry.job.interruptions), (0, 1), "no attempt is charged as a failure");
    assert_eq!((retry.job.spec.trigger, retry.state()), (Trigger::Retry, JobState::Queued));
    let other = world.node("other").await;
    assert_eq!(world.claim(other, ALL).await, [recovered.retries[0]], "never the same job again");
}

pub async fn c09_recovering_twice_does_nothing_the_second_time(world: &mut World) {
    let made = world.enqueue_all(vec![job(); 3]).await;
    let lease = world.node("lost").await;
    world.claim(lease, 2).await;
    let lost = vec![LostNode { lease, counter: world.counter(lease).await.expect("it is watched") }];
    let first = world.store().recover_lost_nodes(lost.clone()).await.expect("recovery succeeds");
    assert_eq!((first.closed.len(), first.retries.len()), (2, 2));
    let before = world.snapshot(&made).await;
    let second = world.store().recover_lost_nodes(lost.clone()).await.expect("recovery succeeds");
    assert_eq!((second.closed, second.retries), (Vec::new(), Vec::new()));
    world.reopen().await;
    let third = world.store().recover_lost_nodes(lost).await.expect("recovery succeeds");
    assert_eq!((third.closed, third.retries), (Vec::new(), Vec::new()));
    assert_eq!(world.snapshot(&made).await, before);
}

pub async fn c09_a_node_whose_counter_moved_is_not_lost(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("slow").await;
    world.claim_one(lease).await;
    let seen = world.counter(lease).await.expect("it is watched");
    world.store().heartbeat_if_leased(lease).await.expect("the lease holds");
    // However much time passes on whatever clock: only a counter that stands still is a sign.
    world.pass(mins(600));
    let recovered = world.store().recover_lost_nodes(vec![LostNode { lease, counter: seen }]).await;
    assert_eq!(recovered, Ok(Recovered::default()));
    assert_eq!(world.state(id).await, JobState::Running);
    world.complete(lease, id).await;
}

pub async fn c09_the_late_end_of_a_lost_node_is_refused(world: &mut World) {
    let made = world.enqueue_all(vec![retried_job(1, SHORTEST_WAIT), job()]).await;
    let lease = world.node("lost").await;
    assert_eq!(world.claim(lease, 1).await, [made[0]]);
    world.recover(lease).await;
    let before = world.snapshot(&made).await;
    let late = world.store().finish_runs_if_leased(lease, vec![FinishedRun::completed(made[0])]).await;
    assert!(matches!(&late, Err(StoreError::LostLease)) || late == Ok(vec![FinishResult::LostLease]), "{late:?}");
    assert_eq!(world.store().heartbeat_if_leased(lease).await, Err(StoreError::LostLease));
    let claim = world.store().claim_jobs_if_leased(claim_request(lease, 1)).await;
    assert_eq!(claim, Err(StoreError::LostLease));
    let back = world.store().give_back_if_leased(lease, vec![made[0]]).await;
    assert!(matches!(&back, Err(StoreError::LostLease)) || back == Ok(Vec::new()), "{back:?}");
    assert_eq!(world.snapshot(&made).await, before, "nothing was overwritten");
    assert_eq!(world.counter(lease).await, None, "a lost node is not watched any more");
}

pub async fn c09_what_had_ended_before_the_node_was_lost_stays_as_it_is(world: &mut World) {
    let made = world.enqueue_all(vec![retried_job(1, SHORTEST_WAIT); 3]).await;
    let lease = world.node("lost").await;
    world.claim(lease, ALL).await;
    world.complete(lease, made[0]).await;
    assert_eq!(world.fail(lease, made[1]).await, None);
    let before = (world.closed_run(made[0]).await, world.closed_run(made[1]).await);
    let recovered = world.recover(lease).await;
    assert_eq!(recovered.closed, [made[2]]);
    assert_eq!((world.closed_run(made[0]).await, world.closed_run(made[1]).await), before);
}

pub async fn c09_a_claim_left_over_beside_a_finished_run_is_dropped(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("lost").await;
    world.claim_one(lease).await;
    // As a restored backup may hold it: the run has ended, and the claim is still there.
    let (job_id, at) = (world.raw.uuid_literal(id.0), world.raw.time_literal(clock_time("00:00:00")));
    let insert = "INSERT INTO {runs} (job_id, finished_at, outcome, final) VALUES";
    assert_eq!(world.tamper(&format!("{insert} ({job_id}, {at}, 'completed', TRUE)")).await, Ok(1));
    world.pass(secs(20));
    let recovered = world.recover(lease).await;
    assert_eq!((recovered.closed, recovered.retries, recovered.leftovers), (Vec::new(), Vec::new(), 1));
    let run = world.closed_run(id).await;
    assert_eq!((run.outcome, run.finished_at), (Outcome::Completed, clock_time("00:00:00")), "it is not overwritten");
    assert_eq!(world.count("SELECT COUNT(*) FROM {running}").await, 0);
    assert!(world.queue("default").await.is_empty(), "and never run again");
}

pub async fn c09_retries_of_several_lost_nodes_stand_in_the_order_of_their_jobs(world: &mut World) {
    let made = world.enqueue_all(vec![retried_job(1, SHORTEST_WAIT); 4]).await;
    let (one, other) = (world.node("one").await, world.node("other").await);
    for (number, id) in made.iter().enumerate() {
        assert_eq!(world.claim_one(if number % 2 == 0 { one } else { other }).await, *id);
    }
    let mut lost = Vec::new();
    for lease in [other, one] {
        let counter = world.counter(lease).await.expect("it is watched");
        lost.push(LostNode { lease, counter });
    }
    let recovered = world.store().recover_lost_nodes(lost).await.expect("recovery succeeds");
    assert_eq!((recovered.nodes, recovered.closed.as_slice()), (2, made.as_slice()));
    for (job, retry) in made.iter().zip(&recovered.retries) {
        assert_eq!(world.job(*retry).await.job.retry_of, Some(*job));
    }
}

pub async fn c09_only_the_lost_nodes_runs_are_touched(world: &mut World) {
    let made = world.enqueue_all(vec![job(); 2]).await;
    let (lost, alive) = (world.node("lost").await, world.node("alive").await);
    assert_eq!(world.claim(lost, 1).await, [made[0]]);
    assert_eq!(world.claim(alive, 1).await, [made[1]]);
    assert_eq!(world.recover(lost).await.closed, [made[0]]);
    assert_eq!(world.state(made[1]).await, JobState::Running);
    assert!(world.counter(alive).await.is_some());
    world.complete(alive, made[1]).await;
}

pub async fn c09_without_interruptions_left_the_loss_is_final(world: &mut World) {
    let id = world.enqueue(NewJob { retry: RetryPolicy::none(), ..job() }).await;
    let lease = world.node("lost").await;
    world.claim_one(lease).await;
    let recovered = world.recover(lease).await;
    assert_eq!((recovered.closed, recovered.retries), (vec![id], Vec::new()));
    assert!(world.closed_run(id).await.is_final);
}

pub async fn c09_a_lost_run_frees_its_serial_key_and_its_schedule(world: &mut World) {
    let definition = ScheduleDefinition { serial: true, retry: RetryPolicy::none(), ..minutely("serial") };
    let schedule = world.create(definition).await;
    let lease = world.node("lost").await;
    world.set_time("00:01:00");
    let first = world.fire_one().await;
    world.claim_one(lease).await;
    world.set_time("00:02:00");
    let second = world.fire_one().await;
    world.set_time("00:02:30");
    assert_eq!(world.recover(lease).await.closed, [first]);
    let other = world.node("other").await;
    assert_eq!(world.claim(other, ALL).await, [second]);
    let results = world.schedule(schedule.id).await.results;
    assert_eq!((results.last_run_at, results.last_outcome), (Some(clock_time("00:02:30")), Some(Outcome::Failed)));
    assert_eq!(results.consecutive_failures, 1);
}

pub async fn c10_a_missing_retry_is_made_once_whoever_recovers(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("lost").await;
    world.claim_one(lease).await;
    let lost = vec![LostNode { lease, counter: world.counter(lease).await.expect("it is watched") }];
    let stores = [world.store(), world.second_store().await];
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let (store, lost) = (stores[n % 2].clone(), lost.clone());
            tokio::spawn(async move { store.recover_lost_nodes(lost).await.expect("recovery succeeds") })
        })
        .collect();
    let (mut closed, mut retries) = (Vec::new(), Vec::new());
    for task in tasks {
        let recovered = task.await.expect("a caller ends");
        closed.extend(recovered.closed);
        retries.extend(recovered.retries);
    }
    assert_eq!(closed, [id]);
    assert_eq!(retries.len(), 1);
    assert_eq!(world.queue("default").await, retries);
}

pub async fn c10_a_refused_commit_of_recovery_leaves_it_to_be_done_again(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("lost").await;
    world.claim_one(lease).await;
    let lost = vec![LostNode { lease, counter: world.counter(lease).await.expect("it is watched") }];
    let before = world.snapshot(&[id]).await;
    world.faults.refuse_commits(true).await;
    let refused = world.store().recover_lost_nodes(lost.clone()).await;
    world.faults.refuse_commits(false).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(world.snapshot(&[id]).await, before);
    let recovered = world.store().recover_lost_nodes(lost).await.expect("recovery succeeds");
    assert_eq!((recovered.closed, recovered.retries.len()), (vec![id], 1));
}

pub async fn c09_nobody_lost_is_nothing_done(world: &mut World) {
    world.enqueue(job()).await;
    assert_eq!(world.store().recover_lost_nodes(Vec::new()).await, Ok(Recovered::default()));
    let unknown = vec![LostNode { lease: foreign_lease(), counter: 0 }];
    let recovered = world.store().recover_lost_nodes(unknown).await.expect("recovery succeeds");
    assert_eq!((recovered.nodes, recovered.closed), (0, Vec::new()));
}

pub async fn c09_a_cancelled_job_of_a_lost_node_is_not_retried(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("lost").await;
    world.claim_one(lease).await;
    world.store().cancel_job(id).await.expect("it is asked to stop");
    let recovered = world.recover(lease).await;
    assert_eq!((recovered.closed, recovered.retries), (vec![id], Vec::new()), "somebody wanted it to stop");
    assert!(world.state(id).await.is_terminal());
}
