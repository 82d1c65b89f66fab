//! Firing: what a pass decides and says, and when the loop makes one.

use super::World;
use jiff::SignedDuration;
use punctual_core::id::{ClaimId, JobId};
use punctual_core::job::NewJob;
use punctual_core::policies::Policies;
use punctual_core::run::ErrorCode;
use punctual_core::schedule::Missed;
use punctual_core::slot::Reason;
use punctual_core::store::{Changes, ClaimRequest, FinishedRun, NewNode, Store};
use punctual_core::target::Target;
use punctual_core::upkeep::Upkeep;
use punctual_engine::clock::Uptime;
use punctual_engine::fire::{FireOptions, FirePass, FireWatch, fire_once, run_until};
use punctual_engine::memory::Fallback;
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
    let not_run = [(Reason::Superseded, 7)].into_iter().collect();
    assert_eq!(pass, FirePass { schedules: 7, jobs: 7, slots_not_run: 7, not_run, ..FirePass::default() });
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
    for n in 0..200 {
        world.minutely(&format!("schedule {n}"), Missed::ONCE).await;
    }
    world.clock.pass(MINUTE);
    let first = fire_once(&world.store, None, 1).await.unwrap();
    assert!(first.more && first.jobs < 200, "{first:?}");
    let second = fire_once(&world.store, None, 1).await.unwrap();
    assert_eq!((first.jobs + second.jobs, second.more), (200, false));
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

/// Tells a test what the loop does.
struct Told {
    passes: mpsc::UnboundedSender<FirePass>,
    fallbacks: mpsc::UnboundedSender<Fallback>,
}

impl FireWatch for Told {
    fn on_pass(&mut self, pass: &FirePass) {
        drop(self.passes.send(pass.clone()));
    }

    fn on_fallback(&mut self, fallback: Fallback) {
        let _gone = self.fallbacks.send(fallback);
    }
}

/// What a test hears of the loop.
pub struct Heard {
    pub passes: mpsc::UnboundedReceiver<FirePass>,
    pub fallbacks: mpsc::UnboundedReceiver<Fallback>,
}

/// Runs the loop beside a test, and ends it.
async fn beside_the_loop<T>(world: &World, test: impl AsyncFnOnce(&mut mpsc::UnboundedReceiver<FirePass>) -> T) -> T {
    // Longer than any test: nothing here happens by the sweep.
    let options = FireOptions { sweep: Duration::from_secs(3600), ..FireOptions::default() };
    beside(&world.store, options, async |heard| test(&mut heard.passes).await).await
}

/// The same with a store and options of the test's own.
pub async fn beside<T>(store: &dyn Store, options: FireOptions, test: impl AsyncFnOnce(&mut Heard) -> T) -> T {
    let (passes, heard_passes) = mpsc::unbounded_channel();
    let (fallbacks, heard_fallbacks) = mpsc::unbounded_channel();
    let mut told = Told { passes, fallbacks };
    let mut heard = Heard { passes: heard_passes, fallbacks: heard_fallbacks };
    let (stop, stopped) = oneshot::channel::<()>();
    let firing = run_until(store, &options, Uptime::start(), &mut told, async { drop(stopped.await) });
    let tested = async {
        let answer = test(&mut heard).await;
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
async fn d03_the_loop_ends_a_pause_and_fires_what_is_due_then() {
    let world = World::new();
    let schedule = world.minutely("paused", Missed::ONCE).await;
    let until = world.store.now().await.unwrap() + MINUTE * 3;
    world.store.pause_schedule_until(schedule.id, until, None, None).await.unwrap();
    beside_the_loop(&world, async |passes| {
        world.clock.pass(MINUTE * 3);
        world.store.reconcile_schedules(None, 1).await.unwrap();
        let pass = passes.recv().await.unwrap();
        assert_eq!((pass.steered, pass.slots_not_run, pass.jobs, pass.more), (1, 2, 1, false), "in one pass");
    })
    .await;
}

#[tokio::test]
async fn d10_a_pass_under_a_cap_ends_and_the_loop_waits_for_room() {
    let world = World::new();
    world.store.set_fire_cap(Some(2)).await.unwrap();
    for n in 0..5 {
        world.minutely(&format!("schedule {n}"), Missed::ONCE).await;
    }
    beside_the_loop(&world, async |passes| {
        world.clock.pass(MINUTE);
        world.store.reconcile_schedules(None, 1).await.unwrap();
        let mut jobs = Vec::new();
        while jobs.iter().sum::<usize>() < 5 {
            let pass = passes.recv().await.unwrap();
            assert!(!pass.more, "what waits for the cap is not due");
            // It may look once more before the clock is turned.
            if pass.jobs == 0 {
                continue;
            }
            jobs.push(pass.jobs);
            world.clock.pass(SignedDuration::from_secs(1));
            world.store.reconcile_schedules(None, 1).await.unwrap();
        }
        assert_eq!(jobs, [2, 2, 1]);
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
    assert_eq!(
        reconcile_once(&world.store).await.unwrap(),
        ReconcilePass { looked_at: 451, ..ReconcilePass::default() }
    );
    let connection = rusqlite::Connection::open(world.store.path()).unwrap();
    // Years ahead, so that firing would never find them due.
    let force = "UPDATE punctual_schedule_state SET next_slot_at = next_slot_at + 100000000000000,
                 next_run_at = next_run_at + 100000000000000 WHERE schedule_id <> ?1";
    connection.execute(force, [sound.id.as_bytes()]).unwrap();
    assert_eq!(
        reconcile_once(&world.store).await.unwrap(),
        ReconcilePass { looked_at: 451, replanned: 450, ..ReconcilePass::default() }
    );
    let mended = world.store.schedule(&forced[0].id.into()).await.unwrap().unwrap();
    assert_eq!(mended.state.next_run_at, forced[0].state.next_run_at);
    assert_eq!(
        reconcile_once(&world.store).await.unwrap(),
        ReconcilePass { looked_at: 451, ..ReconcilePass::default() }
    );
}

/// A busy queue must not make the node ask again and again what is due.
#[tokio::test]
async fn d02_jobs_that_come_and_end_do_not_wake_the_loop_and_retries_and_delayed_jobs_do() {
    let world = World::new();
    let store = &world.store;
    let lease = store.register_node(NewNode { name: "n".into(), offers: vec!["task:work".into()] }).await.unwrap();
    let mut plans = store.plan_changes();
    let mut jobs = store.changes();
    let work = || NewJob::new(Target::task("work"));
    let mut claimed = Vec::new();
    for _ in 0..50 {
        store.enqueue_jobs(vec![work()]).await.unwrap();
        let request = ClaimRequest {
            lease,
            claim_id: ClaimId(uuid::Uuid::from_u128(1)),
            queues: Vec::new(),
            job_types: vec!["task:work".into()],
            limit: 1,
        };
        claimed.push(store.claim_jobs_if_leased(request).await.unwrap()[0].job.id);
    }
    let ends = |ids: &[JobId]| ids.iter().map(|id| FinishedRun::completed(*id)).collect();
    store.finish_runs_if_leased(lease, ends(&claimed[1..])).await.unwrap();
    store.fire_due(None, 10).await.unwrap();
    store.promote_due_jobs(10).await.unwrap();
    store.recover_lost_nodes(Vec::new()).await.unwrap();
    assert!(rings(&mut *jobs).await, "whoever waits for work is told");
    assert!(!rings(&mut *plans).await, "whoever fires is not");
    let broken = FinishedRun::failed(claimed[0], ErrorCode::TargetError, "it broke");
    store.finish_runs_if_leased(lease, vec![broken]).await.unwrap();
    assert!(rings(&mut *plans).await, "a retry is due later");
    let run_at = Some(store.now().await.unwrap() + MINUTE);
    store.enqueue_jobs(vec![NewJob { run_at, ..work() }]).await.unwrap();
    assert!(rings(&mut *plans).await, "and so is a delayed job");
    world.minutely("planned", Missed::ONCE).await;
    assert!(rings(&mut *plans).await);
}

/// Whether a line has rung since the last time; it rings before the verb answers.
async fn rings(line: &mut dyn Changes) -> bool {
    tokio::select! {
        biased;
        () = line.next() => true,
        () = std::future::ready(()) => false,
    }
}
