//! Forgetting old history without losing what uniqueness and living chains need.

use crate::prelude::*;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::retry::RetryPolicy;
use punctual_core::store::{Lease, Pruned, Retention};

async fn prune(world: &World, before: Timestamp, limit: usize) -> Pruned {
    world.store().prune_history(Retention::before(before, limit)).await.expect("history can be pruned")
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
    assert_eq!(prune(world, clock_time("00:10:00"), ALL).await, Pruned { jobs: 1, ..Pruned::default() });
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

/// Runs one job to its end.
async fn ended(world: &World, lease: Lease, failed: bool) -> JobId {
    let id = world.enqueue(NewJob { retry: RetryPolicy::none(), ..job() }).await;
    world.claim_one(lease).await;
    if failed {
        assert_eq!(world.fail(lease, id).await, None);
    } else {
        world.complete(lease, id).await;
    }
    id
}

/// Prunes until all was looked at; says what went, and in how many steps.
async fn prune_all(world: &World, mut retention: Retention) -> (Pruned, usize) {
    let (mut sum, mut steps) = (Pruned::default(), 0);
    loop {
        let pruned = world.store().prune_history(retention).await.expect("history can be pruned");
        (sum.jobs, sum.slots) = (sum.jobs + pruned.jobs, sum.slots + pruned.slots);
        steps += 1;
        match pruned.next {
            Some(from) => retention.from = from,
            None => return (sum, steps),
        }
    }
}

pub async fn c13_failed_runs_can_be_kept_longer_or_shorter_than_others(world: &mut World) {
    let lease = world.node("a").await;
    let (good, bad) = (ended(world, lease, false).await, ended(world, lease, true).await);
    world.set_time("10:00:00");
    let longer = Retention { failed_before: clock_time("00:00:00"), ..Retention::before(clock_time("10:00:00"), ALL) };
    assert_eq!(prune_all(world, longer).await.0.jobs, 1);
    assert_eq!((is_known(world, good).await, is_known(world, bad).await), (false, true));
    let good = ended(world, lease, false).await;
    world.set_time("20:00:00");
    let shorter = Retention { runs_before: clock_time("00:00:00"), ..Retention::before(clock_time("20:00:00"), ALL) };
    assert_eq!(prune_all(world, shorter).await.0.jobs, 1);
    assert_eq!((is_known(world, good).await, is_known(world, bad).await), (true, false));
}

pub async fn c13_the_last_jobs_of_each_schedule_can_be_kept_however_old(world: &mut World) {
    let (one, other) = (world.create(minutely("one")).await, world.create(minutely("other")).await);
    let lease = world.node("a").await;
    for _ in 0..5 {
        world.pass(mins(1));
        for id in world.fire().await.jobs {
            assert_eq!(world.claim(lease, 1).await, [id]);
            world.complete(lease, id).await;
        }
    }
    let free = ended(world, lease, false).await;
    world.set_time("10:00:00");
    let latest = world.store().schedule_jobs(one.id, None, 2).await.expect("its jobs can be read");
    let keep_two = Retention { keep_last: 2, ..Retention::before(clock_time("10:00:00"), ALL) };
    assert_eq!(prune_all(world, keep_two).await.0.jobs, 7, "three of each schedule, and the one of none");
    for schedule in [&one, &other] {
        let kept = world.store().schedule_jobs(schedule.id, None, ALL).await.expect("its jobs can be read");
        assert_eq!(kept.len(), 2);
    }
    assert_eq!(world.store().schedule_jobs(one.id, None, ALL).await, Ok(latest));
    assert!(!is_known(world, free).await);
    let keep_nine = Retention { keep_last: 9, ..keep_two };
    assert_eq!(prune_all(world, keep_nine).await.0.jobs, 0, "fewer than are to be kept");
}

pub async fn c13_what_stays_is_looked_at_once_in_a_pass(world: &mut World) {
    let lease = world.node("a").await;
    for n in 0..9 {
        ended(world, lease, n < 6).await;
    }
    world.set_time("10:00:00");
    let limit = 3;
    let retention =
        Retention { failed_before: clock_time("00:00:00"), ..Retention::before(clock_time("10:00:00"), limit) };
    let stuck = world.store().prune_history(retention).await.expect("history can be pruned");
    assert_eq!(stuck.jobs, 0, "the first three must stay");
    let (pruned, steps) = prune_all(world, retention).await;
    assert_eq!(pruned.jobs, 3, "a step goes on where the last one ended");
    assert!(steps <= 4, "{steps} steps for nine runs, three at a time");
}

pub async fn c13_slots_of_many_schedules_are_forgotten_step_by_step(world: &mut World) {
    let mut schedules = Vec::new();
    for n in 0..3 {
        schedules.push(world.create(minutely(&format!("s{n}"))).await.id);
    }
    for _ in 0..4 {
        world.pass(mins(1));
        assert_eq!(world.fire().await.jobs.len(), 3);
    }
    world.set_time("01:00:00");
    let (pruned, steps) = prune_all(world, Retention::before(clock_time("00:04:00"), 2)).await;
    assert_eq!((pruned.slots, steps), (9, 5));
    for id in schedules {
        assert_eq!(world.ledger(id).await.len(), 1);
    }
}

pub async fn c03_what_retention_may_delete_nobody_else_may(world: &mut World) {
    let schedule = world.create(minutely("kept")).await;
    let lease = world.node("a").await;
    world.set_time("00:01:00");
    let id = world.fire_one().await;
    world.claim_one(lease).await;
    world.complete(lease, id).await;
    world.set_time("10:00:00");
    let keep = Retention { keep_last: 1, ..Retention::before(clock_time("10:00:00"), ALL) };
    let keep_slots = Retention { slots_before: clock_time("00:00:00"), ..keep };
    assert_eq!(world.store().prune_history(keep_slots).await, Ok(Pruned::default()));
    assert_eq!(world.store().prune_history(Retention { limit: 0, ..keep }).await, Ok(Pruned::default()));
    for ledger in ["{runs}", "{jobs}", "{slots}"] {
        world.assert_database_refuses(&format!("DELETE FROM {ledger}")).await;
    }
    assert_eq!(world.store().prune_history(keep).await.map(|pruned| pruned.slots), Ok(1));
    assert_eq!(world.ledger(schedule.id).await, []);
    assert!(is_known(world, id).await);
}
