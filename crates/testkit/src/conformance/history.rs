//! Forgetting old history without losing what uniqueness and living chains need.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::JobState;
use punctual_core::store::{Pruned, Retention};

async fn prune(world: &World, before: Timestamp, limit: usize) -> Pruned {
    let retention = Retention { runs_before: before, slots_before: before, limit };
    world.store().prune_history(retention).await.expect("history can be pruned")
}

async fn is_known(world: &World, id: JobId) -> bool {
    world.store().job(id).await.expect("jobs can be read").is_some()
}

pub async fn c13_old_runs_go_with_their_jobs_and_young_ones_stay(world: &mut World) {
    let lease = world.node("a").await;
    let made = world.enqueue_all(vec![job(); 4]).await;
    world.claim(lease, 3).await;
    world.complete(lease, made[0]).await;
    world.set_time("00:10:00");
    world.complete(lease, made[1]).await;
    world.set_time("00:20:00");
    assert_eq!(prune(world, clock_time("00:10:00"), ALL).await, Pruned { jobs: 1, slots: 0 });
    let mut known = Vec::new();
    for id in &made {
        known.push(is_known(world, *id).await);
    }
    assert_eq!(known, [false, true, true, true], "what ended at the horizon, runs or waits is kept");
    assert_eq!(world.state(made[2]).await, JobState::Running);
    assert_eq!(prune(world, clock_time("00:20:00"), ALL).await.jobs, 1);
    assert_eq!(prune(world, clock_time("00:20:00"), ALL).await, Pruned::default());
}

pub async fn c04_the_chain_of_a_living_job_is_kept_whole(world: &mut World) {
    let lease = world.node("a").await;
    let first = world.enqueue(retried_job(5, SHORTEST_WAIT)).await;
    world.claim_one(lease).await;
    let second = world.fail_and_requeue(lease, first).await;
    world.claim_one(lease).await;
    let third = world.fail_and_requeue(lease, second).await;
    world.set_time("10:00:00");
    assert_eq!(prune(world, clock_time("10:00:00"), ALL).await.jobs, 0);
    for id in [first, second, third] {
        assert!(is_known(world, id).await);
    }
    world.claim_one(lease).await;
    world.complete(lease, third).await;
    world.set_time("11:00:00");
    let mut gone = 0;
    for _ in 0..5 {
        gone += prune(world, clock_time("11:00:00"), ALL).await.jobs;
    }
    assert_eq!(gone, 3, "the whole chain goes when it is over");
}

pub async fn a10_old_slots_go_and_the_plan_stays(world: &mut World) {
    let schedule = world.create(minutely("pruned")).await;
    for _ in 0..5 {
        world.pass(mins(1));
        world.fire_one().await;
    }
    let before = world.schedule(schedule.id).await;
    assert_eq!(prune(world, clock_time("00:04:00"), ALL).await.slots, 3);
    let kept: Vec<String> = world.ledger(schedule.id).await.into_iter().map(|row| row.0).collect();
    assert_eq!(kept, ["00:04:00", "00:05:00"]);
    assert_eq!(world.schedule(schedule.id).await, before);
    world.pass(mins(1));
    world.fire_one().await;
}

pub async fn c13_pruning_is_done_in_small_steps(world: &mut World) {
    let lease = world.node("a").await;
    let made = world.enqueue_all(vec![job(); 10]).await;
    world.claim(lease, ALL).await;
    for id in made {
        world.complete(lease, id).await;
    }
    world.set_time("01:00:00");
    let mut steps = Vec::new();
    for _ in 0..4 {
        steps.push(prune(world, clock_time("01:00:00"), 4).await.jobs);
    }
    assert_eq!(steps, [4, 4, 2, 0]);
    assert_eq!(prune(world, clock_time("01:00:00"), 0).await, Pruned::default());
}

pub async fn c13_artifacts_go_with_their_run(world: &mut World) {
    let lease = world.node("a").await;
    let id = world.enqueue(job()).await;
    world.claim_one(lease).await;
    let artifact = punctual_core::job::Artifact {
        name: "a".to_owned(),
        location: "file:a".to_owned(),
        size_bytes: 1,
        sha256: "00".repeat(32),
    };
    world.store().add_artifacts_if_leased(lease, id, vec![artifact]).await.expect("it is added");
    world.complete(lease, id).await;
    world.set_time("01:00:00");
    assert_eq!(prune(world, clock_time("01:00:00"), ALL).await.jobs, 1);
    assert_eq!(world.store().artifacts(id).await, Ok(Vec::new()));
    assert_eq!(world.count("SELECT COUNT(*) FROM {artifacts}").await, 0);
}
