//! Firing from memory: while the table of plans cannot be used, and for what a program fires itself.

use super::World;
use crate::fire::beside;
use jiff::SignedDuration;
use punctual_core::schedule::{FiredFrom, Missed, Schedule, ScheduleDefinition};
use punctual_core::slot::Decision;
use punctual_core::store::Store;
use punctual_core::upkeep::{Declaration, Declarations};
use punctual_engine::declare::declare_once;
use punctual_engine::fire::FireOptions;
use punctual_engine::memory::{Fallback, Memory, MemoryOptions, fire_from_memory};
use std::time::Duration;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// Notices everything at once.
fn impatient() -> FireOptions {
    let memory = MemoryOptions { patience: Duration::ZERO, probe: Duration::ZERO, ..MemoryOptions::default() };
    FireOptions { sweep: Duration::from_secs(3600), memory, ..FireOptions::default() }
}

impl World {
    /// Makes the plans unusable, as a broken migration would, or usable again.
    fn break_plans(&self, on: bool) {
        let sql = if on {
            "CREATE TRIGGER broken BEFORE UPDATE ON punctual_schedule_state
             BEGIN SELECT raise(ABORT, 'this table is broken'); END"
        } else {
            "DROP TRIGGER broken"
        };
        rusqlite::Connection::open(self.store.path()).unwrap().execute_batch(sql).unwrap();
    }

    async fn fired(&self, schedule: &Schedule) -> usize {
        let rows = self.store.slots(schedule.id, None, 1000).await.unwrap();
        rows.iter().filter(|row| row.decision == Decision::Fired).count()
    }

    async fn jobs(&self, schedule: &Schedule) -> usize {
        self.store.schedule_jobs(schedule.id, None, 1000).await.unwrap().len()
    }
}

#[tokio::test]
async fn d08_a_loop_goes_on_from_memory_says_so_and_comes_back() {
    let world = World::new();
    let schedule = world.minutely("goes on", Missed::ONCE).await;
    let paused = world.minutely("paused", Missed::ONCE).await;
    world.store.pause_schedule(paused.id, None, None).await.unwrap();
    beside(&world.store, impatient(), async |heard| {
        world.clock.pass(MINUTE);
        world.store.reconcile_schedules(None, 1).await.unwrap();
        assert_eq!(heard.passes.recv().await.unwrap().jobs, 1, "from the store");
        world.break_plans(true);
        // The loop finds out by itself when the next slot is due.
        world.clock.pass(MINUTE);
        world.store.enqueue_jobs(vec![delayed(&world).await]).await.unwrap();
        assert_eq!(heard.fallbacks.recv().await, Some(Fallback::Began { schedules: 1 }));
        for slot in 3..6 {
            while heard.passes.recv().await.unwrap().jobs == 0 {}
            assert_eq!(world.fired(&schedule).await, slot - 1);
            world.clock.pass(MINUTE);
        }
        world.break_plans(false);
        assert_eq!(heard.fallbacks.recv().await, Some(Fallback::Ended));
    })
    .await;
    world.clock.pass(MINUTE);
    punctual_engine::fire::fire_once(&world.store, None, 10).await.unwrap();
    assert_eq!(world.jobs(&schedule).await, world.fired(&schedule).await, "one job for each slot");
    let mut slots = world.store.slots(schedule.id, None, 1000).await.unwrap();
    slots.reverse();
    let covered: u64 = slots.iter().map(|row| row.count).sum();
    let whole = slots.last().unwrap().through.duration_since(slots[0].slot_at).as_mins() + 1;
    assert_eq!(covered, u64::try_from(whole).unwrap(), "the ledger has one record for every minute: {slots:?}");
    assert_eq!(world.jobs(&paused).await, 0, "a paused schedule is not fired from memory");
}

/// A job that is due at once, and makes the loop look.
async fn delayed(world: &World) -> punctual_core::job::NewJob {
    let run_at = Some(world.store.now().await.unwrap() - MINUTE);
    punctual_core::job::NewJob { run_at, ..punctual_core::job::NewJob::new(punctual_core::target::Target::task("x")) }
}

#[tokio::test]
async fn d08_what_cannot_be_fired_from_the_store_does_not_hold_up_delayed_jobs() {
    let world = World::new();
    world.minutely("stuck", Missed::ONCE).await;
    world
        .store
        .enqueue_jobs(vec![punctual_core::job::NewJob {
            run_at: Some(world.store.now().await.unwrap() + MINUTE),
            ..delayed(&world).await
        }])
        .await
        .unwrap();
    world.break_plans(true);
    world.clock.pass(MINUTE);
    assert!(punctual_engine::fire::fire_once(&world.store, None, 10).await.is_err());
    assert_eq!(world.store.queued_jobs("default", None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn d08_a_memory_too_old_fires_nothing() {
    let world = World::new();
    let schedule = world.minutely("old", Missed::ONCE).await;
    let mut memory = Memory::new(MemoryOptions::default(), Vec::new());
    let hour = Duration::from_secs(3600);
    memory.refresh(&world.store, Duration::ZERO).await.unwrap();
    assert_eq!(memory.len(), 1);
    world.clock.pass(MINUTE);
    assert_eq!(fire_from_memory(&world.store, None, &mut memory).await.unwrap().jobs, 0, "the store fires it");
    memory.failed(Duration::ZERO);
    assert_eq!(memory.failed(hour), Some(Fallback::Began { schedules: 1 }));
    assert_eq!(fire_from_memory(&world.store, None, &mut memory).await.unwrap().jobs, 1);
    world.clock.pass(MINUTE);
    assert_eq!(memory.failed(hour + Duration::from_secs(1)), Some(Fallback::GaveUp));
    assert_eq!(fire_from_memory(&world.store, None, &mut memory).await.unwrap().jobs, 0);
    assert_eq!(world.fired(&schedule).await, 1);
}

/// Declarations of one schedule.
fn declared(definition: &ScheduleDefinition, fired_from: FiredFrom) -> Declarations {
    let schedules = vec![Declaration { definition: definition.clone(), fired_from }];
    Declarations { owner: Some("app".to_owned()), schedules, remove_others: false }
}

#[tokio::test]
async fn d07_two_processes_fire_from_memory_and_the_store_takes_over_one_schedule() {
    let world = World::new();
    let definition = world.minutely("template", Missed::ONCE).await.definition;
    let definition = ScheduleDefinition { name: punctual_core::name::Name::new("moved").unwrap(), ..definition };
    let in_memory = declared(&definition, FiredFrom::Memory);
    let ids = declare_once(&world.store, &in_memory).await.unwrap();
    assert_eq!(declare_once(&world.store, &in_memory).await.unwrap(), ids);
    let schedule = world.store.schedule(&ids[0].into()).await.unwrap().unwrap();
    let mut nodes = [0, 1].map(|_| Memory::new(MemoryOptions::default(), ids.clone()));
    for memory in &mut nodes {
        memory.refresh(&world.store, Duration::ZERO).await.unwrap();
    }
    for slot in 1..4 {
        world.clock.pass(MINUTE);
        let mut jobs = 0;
        for memory in &mut nodes {
            jobs += fire_from_memory(&world.store, None, memory).await.unwrap().jobs;
        }
        assert_eq!((jobs, world.fired(&schedule).await), (1, slot), "a slot that both see runs once");
    }
    // One process is new and lets the store fire it; the other one has not heard of that.
    declare_once(&world.store, &declared(&definition, FiredFrom::Store)).await.unwrap();
    world.clock.pass(MINUTE);
    punctual_engine::fire::fire_once(&world.store, None, 10).await.unwrap();
    assert_eq!(fire_from_memory(&world.store, None, &mut nodes[1]).await.unwrap().jobs, 0);
    assert_eq!((world.fired(&schedule).await, world.jobs(&schedule).await), (4, 4));
    nodes[1].refresh(&world.store, Duration::ZERO).await.unwrap();
    assert_eq!(nodes[1].next_due(), None, "and when it has, it leaves it to the store");
}

/// What a node remembers may be wrong in every way: nothing fires twice, early, or not at all.
#[tokio::test]
async fn c16_a_poisoned_memory_of_a_running_loop_changes_nothing() {
    let world = World::new();
    let schedule = world.minutely("decided", Missed::ONCE).await;
    // Another node has fired everything that this one remembers as due.
    let mut memory = Memory::new(MemoryOptions { patience: Duration::ZERO, ..MemoryOptions::default() }, Vec::new());
    memory.refresh(&world.store, Duration::ZERO).await.unwrap();
    for _ in 0..5 {
        world.clock.pass(MINUTE);
        punctual_engine::fire::fire_once(&world.store, None, 10).await.unwrap();
    }
    assert_eq!(memory.failed(Duration::ZERO), Some(Fallback::Began { schedules: 1 }), "it believes the table is gone");
    let before = world.store.slots(schedule.id, None, 100).await.unwrap();
    assert_eq!(fire_from_memory(&world.store, None, &mut memory).await.unwrap().jobs, 0);
    assert_eq!(world.store.slots(schedule.id, None, 100).await.unwrap(), before);
    assert_eq!(world.jobs(&schedule).await, 5);
}
