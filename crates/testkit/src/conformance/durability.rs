//! Nothing lives in memory only, and a write that failed changed nothing.

use crate::prelude::*;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::job::{JobState, NewJob};
use punctual_core::order::Move;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{FinishedRun, Lease, NewNode, Retention, StoreError, StoreResult};

/// A store with something of everything in it.
struct Populated {
    schedule: ScheduleId,
    lease: Lease,
    jobs: Vec<JobId>,
    running: JobId,
}

async fn populate(world: &World) -> Populated {
    let schedule = world.create(ScheduleDefinition { retry: retry(3, secs(30)), ..minutely("populated") }).await.id;
    let paused = world.create(hourly("paused")).await;
    world.store().pause_schedule(paused.id, Some("ada".to_owned()), None).await.expect("it is paused");
    world.set_time("00:01:00");
    let fired = world.fire_one().await;
    let mut jobs = world.enqueue_all(vec![job(), serial_job("k"), serial_job("k"), job()]).await;
    jobs.push(fired);
    jobs.push(world.enqueue(NewJob { run_at: Some(clock_time("03:00:00")), ..job() }).await);
    let lease = world.node("a").await;
    let claimed = world.claim(lease, 3).await;
    world.complete(lease, claimed[1]).await;
    jobs.extend(world.fail(lease, claimed[0]).await);
    world.store().move_job_if_queued(jobs[3], Move::ToFront).await.expect("it is moved");
    world.store().reserve_queue("held", "ada", mins(50)).await.expect("it is free");
    Populated { schedule, lease, jobs, running: claimed[2] }
}

pub async fn c01_everything_is_as_it_was_after_reopening(world: &mut World) {
    let populated = populate(world).await;
    let before = world.snapshot(&populated.jobs).await;
    let held = world.store().reservation("held").await;
    let pulses = world.store().node_pulses().await;
    for _ in 0..2 {
        world.reopen().await;
        assert_eq!(world.snapshot(&populated.jobs).await, before);
        assert_eq!(world.store().reservation("held").await, held);
        assert_eq!(world.store().node_pulses().await, pulses);
    }
    world.complete(populated.lease, populated.running).await;
}

pub async fn c01_a_second_store_on_the_same_data_sees_every_write_at_once(world: &mut World) {
    let second = world.second_store().await;
    let populated = populate(world).await;
    for id in &populated.jobs {
        assert_eq!(second.job(*id).await, world.store().job(*id).await);
    }
    let id = second.enqueue_jobs(vec![job()]).await.expect("both may write")[0];
    assert_eq!(world.state(id).await, JobState::Queued);
    let edited = second.update_schedule_if_version(populated.schedule, 1, hourly("edited")).await.expect("an edit");
    assert_eq!(world.schedule(populated.schedule).await, edited);
}

pub async fn c01_many_writers_at_once_lose_nothing(world: &mut World) {
    let stores = [world.store(), world.second_store().await];
    let tasks: Vec<_> = (0..40)
        .map(|n| {
            let store = stores[n % 2].clone();
            tokio::spawn(async move { store.enqueue_jobs(vec![job(); 5]).await.expect("it is queued") })
        })
        .collect();
    let mut made = Vec::new();
    for task in tasks {
        made.extend(task.await.expect("a caller ends"));
    }
    let mut queued = world.queue("default").await;
    assert_eq!(queued.len(), 200);
    queued.sort();
    made.sort();
    assert_eq!(queued, made, "each was acknowledged with its own id, and is there");
}

pub async fn c16_a_change_made_by_hand_is_believed(world: &mut World) {
    let id = world.enqueue(job()).await;
    let schedule = world.create(hourly("by hand")).await;
    assert_eq!(world.queue("default").await, [id]);
    assert_eq!(world.schedule(schedule.id).await.definition.description, "");
    assert_eq!(world.tamper("UPDATE {queue} SET priority = 42").await, Ok(1));
    assert_eq!(world.tamper("UPDATE {schedules} SET description = 'changed'").await, Ok(1));
    let place = world.store().queued_jobs("default", None, ALL).await.expect("the queue can be read")[0].place;
    assert_eq!(place.priority, 42, "what is stored decides, not what was remembered");
    assert_eq!(world.schedule(schedule.id).await.definition.description, "changed");
}

fn assert_told<T: std::fmt::Debug>(verb: &str, result: StoreResult<T>) {
    match result {
        Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Internal(_)) => {}
        other => panic!("{verb}: the write was refused and the caller was told {other:?}"),
    }
}

async fn every_write(world: &World, populated: &Populated) {
    let store = world.store();
    let (schedule, lease, running) = (populated.schedule, populated.lease, populated.running);
    let queued = populated.jobs[3];
    assert_told("create_schedule", store.create_schedule(minutely("new")).await);
    assert_told("update", store.update_schedule_if_version(schedule, 1, hourly("edited")).await);
    assert_told("pause_schedule", store.pause_schedule(schedule, None, None).await);
    assert_told("skip_next", store.skip_next(schedule, None).await);
    assert_told("reschedule", store.reschedule(schedule, clock_time("05:00:00")).await);
    assert_told("trigger_schedule", store.trigger_schedule(schedule, ByHand::default()).await);
    assert_told("delete_schedule", store.delete_schedule(schedule).await);
    assert_told("fire_due", store.fire_due(None, ALL).await);
    assert_told("enqueue_jobs", store.enqueue_jobs(vec![job()]).await);
    assert_told("promote_due_jobs", store.promote_due_jobs(ALL).await);
    assert_told("move_job_if_queued", store.move_job_if_queued(queued, Move::ToBack).await);
    assert_told("edit_job_if_queued", store.edit_job_if_queued(queued, json("[]")).await);
    assert_told("cancel_job", store.cancel_job(queued).await);
    let node = NewNode { name: "b".to_owned(), offers: vec![WORK.to_owned()] };
    assert_told("register_node", store.register_node(node).await);
    assert_told("claim_jobs_if_leased", store.claim_jobs_if_leased(claim_request(lease, 1)).await);
    assert_told("give_back_if_leased", store.give_back_if_leased(lease, vec![running]).await);
    assert_told("finish", store.finish_runs_if_leased(lease, vec![FinishedRun::completed(running)]).await);
    assert_told("set_queue_paused", store.set_queue_paused("default", true).await);
    assert_told("reserve_queue", store.reserve_queue("default", "bob", mins(1)).await);
    assert_told("create_template", store.create_template(named("t"), job(), vec![]).await);
    let horizon = clock_time("02:00:00");
    let retention = Retention::before(horizon, ALL);
    assert_told("prune_history", store.prune_history(retention).await);
}

pub async fn c12_a_refused_commit_is_told_and_leaves_everything_as_it_was(world: &mut World) {
    let populated = populate(world).await;
    world.set_time("00:02:00");
    let before = world.snapshot(&populated.jobs).await;
    let pulses = world.store().node_pulses().await;
    world.faults.refuse_commits(true).await;
    every_write(world, &populated).await;
    world.faults.refuse_commits(false).await;
    assert_eq!(world.snapshot(&populated.jobs).await, before);
    assert_eq!(world.store().node_pulses().await, pulses);
    assert_eq!(world.store().reservation("default").await, Ok(None));
    assert_eq!(world.store().template("t").await, Ok(None));
    world.reopen().await;
    assert_eq!(world.snapshot(&populated.jobs).await, before, "nor is it there after a restart");
    world.complete(populated.lease, populated.running).await;
    world.fire_one().await;
}

pub async fn c12_a_job_whose_claim_was_refused_stays_queued(world: &mut World) {
    let id = world.enqueue(job()).await;
    let lease = world.node("a").await;
    world.faults.refuse_commits(true).await;
    assert_told("claim", world.store().claim_jobs_if_leased(claim_request(lease, 1)).await);
    world.faults.refuse_commits(false).await;
    assert_eq!(world.state(id).await, JobState::Queued);
    assert_eq!(world.claim(lease, ALL).await, [id]);
}

pub async fn c12_all_who_shared_a_refused_commit_are_told(world: &mut World) {
    world.faults.refuse_commits(true).await;
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let store = world.store();
            tokio::spawn(async move { store.enqueue_jobs(vec![job()]).await })
        })
        .collect();
    for task in tasks {
        assert_told("enqueue", task.await.expect("a caller ends"));
    }
    world.faults.refuse_commits(false).await;
    assert!(world.queue("default").await.is_empty());
    assert_eq!(world.count("SELECT COUNT(*) FROM {jobs}").await, 0);
    world.enqueue(job()).await;
}

pub async fn c12_one_bad_caller_does_not_spoil_the_others(world: &mut World) {
    let tasks: Vec<_> = (0..30)
        .map(|n| {
            let store = world.store();
            let definition = minutely(&format!("name {}", n % 10));
            tokio::spawn(async move { store.create_schedule(definition).await })
        })
        .collect();
    let (mut made, mut refused) = (0, 0);
    for task in tasks {
        match task.await.expect("a caller ends") {
            Ok(_) => made += 1,
            Err(StoreError::NameTaken { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((made, refused), (10, 20));
    assert_eq!(world.store().schedules(None, ALL).await.map(|all| all.len()), Ok(10));
}
