//! Firing: what a pass decides and says, and when the loop makes one.

use super::World;
use jiff::SignedDuration;
use punctual_core::job::NewJob;
use punctual_core::schedule::Missed;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_engine::fire::{FireOptions, FirePass, fire_once, run_until};
use punctual_engine::reconcile::{ReconcilePass, reconcile_once};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

#[tokio::test]
async fn a05_a_pass_fires_what_is_due_and_says_what_it_did() {
    let world = World::new();
    for n in 0..7 {
        world.minutely(&format!("schedule {n}"), Missed::ONCE).await;
    }
    assert_eq!(fire_once(&world.store, None, 3).await, Ok(FirePass::default()));
    world.clock.pass(MINUTE * 2);
    let pass = fire_once(&world.store, None, 3).await.unwrap();
    // Each had two slots due; one of them stands for both.
    assert_eq!(pass, FirePass { schedules: 7, jobs: 7, slots_not_run: 7, ..FirePass::default() });
    assert_eq!(fire_once(&world.store, None, 3).await, Ok(FirePass::default()));
}

#[tokio::test]
async fn a05_a_schedule_with_much_to_catch_up_on_is_done_in_one_pass() {
    let world = World::new();
    let schedule = world.minutely("behind", Missed::all(1000)).await;
    world.clock.pass(MINUTE * 600);
    let pass = fire_once(&world.store, None, 10).await.unwrap();
    assert_eq!((pass.jobs, pass.more), (600, false));
    assert!(pass.schedules > 1, "no transaction fires all of it");
    assert_eq!(world.store.slots(schedule.id, None, 1000).await.unwrap().len(), 600);
}

#[tokio::test]
async fn d10_a_pass_ends_at_its_bound_and_the_next_one_goes_on() {
    let world = World::new();
    for n in 0..70 {
        world.minutely(&format!("schedule {n}"), Missed::ONCE).await;
    }
    world.clock.pass(MINUTE);
    let first = fire_once(&world.store, None, 1).await.unwrap();
    assert!(first.more && first.jobs < 70, "{first:?}");
    let second = fire_once(&world.store, None, 1).await.unwrap();
    assert_eq!((first.jobs + second.jobs, second.more), (70, false));
}

#[tokio::test]
async fn c02_delayed_jobs_are_promoted_when_their_time_comes() {
    let world = World::new();
    let run_at = Some(world.store.now().await.unwrap() + MINUTE);
    let delayed = NewJob { run_at, ..NewJob::new(Target::command(["true"])) };
    world.store.enqueue_jobs(vec![delayed.clone(), delayed]).await.unwrap();
    assert!(!fire_once(&world.store, None, 10).await.unwrap().made_work());
    world.clock.pass(MINUTE);
    let pass = fire_once(&world.store, None, 10).await.unwrap();
    assert_eq!(pass, FirePass { promoted: 2, ..FirePass::default() });
    assert!(pass.made_work());
}

/// Runs the loop beside a test, and ends it.
async fn beside_the_loop<T>(world: &World, test: impl AsyncFnOnce(&mut mpsc::UnboundedReceiver<FirePass>) -> T) -> T {
    // Longer than any test: nothing here happens by the sweep.
    let options = FireOptions { sweep: Duration::from_secs(3600), ..FireOptions::default() };
    let (say, mut passes) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let on_pass = |pass: &FirePass| drop(say.send(pass.clone()));
    let firing = run_until(&world.store, &options, on_pass, shutdown);
    let tested = async {
        let answer = test(&mut passes).await;
        drop(stop);
        answer
    };
    tokio::join!(firing, tested).1
}

#[tokio::test]
async fn a05_the_loop_sleeps_until_something_is_due_and_can_be_woken() {
    let world = World::new();
    world.minutely("woken", Missed::ONCE).await;
    beside_the_loop(&world, async |passes| {
        for _ in 0..3 {
            world.clock.pass(MINUTE);
            // A write that changes nothing: it wakes whoever waits for plans, and the clock has moved.
            world.store.reconcile_schedules(None, 1).await.unwrap();
            assert_eq!(passes.recv().await.unwrap().jobs, 1);
        }
        assert!(passes.try_recv().is_err(), "it does not spin between slots");
    })
    .await;
}

#[tokio::test]
async fn a08_the_loop_outlives_a_store_that_fails() {
    let world = World::new();
    let schedule = world.minutely("stubborn", Missed::ONCE).await;
    world.clock.pass(MINUTE);
    world.store.refuse_commits(true);
    assert!(fire_once(&world.store, None, 10).await.is_err());
    beside_the_loop(&world, async |passes| {
        assert!(passes.try_recv().is_err());
        world.store.refuse_commits(false);
        assert_eq!(passes.recv().await.unwrap().jobs, 1, "the slot is not lost");
    })
    .await;
    assert_eq!(world.store.slots(schedule.id, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a08_reconciling_looks_at_every_plan_and_mends_only_what_is_impossible() {
    let world = World::new();
    let sound = world.minutely("sound", Missed::ONCE).await;
    let mut forced = Vec::new();
    for n in 0..450 {
        forced.push(world.minutely(&format!("s{n}"), Missed::ONCE).await);
    }
    assert_eq!(reconcile_once(&world.store).await.unwrap(), ReconcilePass { looked_at: 451, replanned: 0 });
    let connection = rusqlite::Connection::open(world.store.path()).unwrap();
    // Years ahead, so that firing would never find them due.
    let force = "UPDATE punctual_schedule_state SET next_slot_at = next_slot_at + 100000000000000,
                 next_run_at = next_run_at + 100000000000000 WHERE schedule_id <> ?1";
    connection.execute(force, [sound.id.as_bytes()]).unwrap();
    assert_eq!(reconcile_once(&world.store).await.unwrap(), ReconcilePass { looked_at: 451, replanned: 450 });
    let mended = world.store.schedule(&forced[0].id.into()).await.unwrap().unwrap();
    assert_eq!(mended.state.next_run_at, forced[0].state.next_run_at);
    assert_eq!(reconcile_once(&world.store).await.unwrap(), ReconcilePass { looked_at: 451, replanned: 0 });
}
