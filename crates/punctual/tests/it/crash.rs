//! Real workers, killed for real: what was acknowledged is kept, what ran ran once, what was cut short is told.

use crate::world::{World, on_both_stores};
use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::timing::TimingSpec;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KILLS: usize = 20;
const LEASE: &str = "2s";

/// A worker process; killed when it is dropped, so that a failing test leaves nothing behind.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts one and waits until it says that it is ready.
    pub(crate) fn start(world: &World) -> Self {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["worker", "--database", &world.url])
            .args(["--lease", LEASE, "--heartbeat", "200ms", "--concurrency", "4"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready"), "{line:?}");
        Self(child)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// Enqueues a job every few milliseconds until it is told to stop; returns what was acknowledged.
fn produce(world: &World, stop: Arc<AtomicBool>) -> tokio::task::JoinHandle<Vec<JobId>> {
    let (store, target) = (Arc::clone(&world.store), world.target());
    tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            acknowledged.extend(store.enqueue_jobs(vec![NewJob::new(target.clone())]).await.unwrap());
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        acknowledged
    })
}

async fn schedule_every_second(world: &World) {
    for n in 0..3 {
        let name = Name::new(format!("tick {n}")).unwrap();
        let timing = TimingSpec::cron("@every 1s", "UTC");
        world.store.create_schedule(ScheduleDefinition::new(name, timing, world.target())).await.unwrap();
    }
}

/// Ends all schedules, and waits until nothing is on its way any more.
async fn come_to_rest(world: &World) {
    for schedule in world.store.schedules(None, 10).await.unwrap() {
        world.store.pause_schedule(schedule.id, None, None).await.unwrap();
    }
    let open =
        "SELECT (SELECT count(*) FROM {queue}) + (SELECT count(*) FROM {delayed}) + (SELECT count(*) FROM {running})";
    while world.number(open).await > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

on_both_stores! {
    async fn c09_killing_workers_loses_nothing_and_runs_nothing_twice(world: &World) {
        schedule_every_second(world).await;
        let stop = Arc::new(AtomicBool::new(false));
        let producer = produce(world, Arc::clone(&stop));
        for n in 0..KILLS {
            let mut worker = Worker::start(world);
            // At odd moments, so that firing, claiming, running and finishing are all cut.
            tokio::time::sleep(Duration::from_millis(60 + 37 * (u64::try_from(n).unwrap() % 9))).await;
            worker.kill();
        }
        stop.store(true, Ordering::SeqCst);
        let acknowledged = producer.await.unwrap();
        let _last = Worker::start(world);
        come_to_rest(world).await;

        let states = world.all_jobs().await;
        let effects = world.effects();
        assert!(acknowledged.len() > 50, "only {} jobs were made", acknowledged.len());
        assert!(acknowledged.iter().all(|id| states.contains_key(id)), "an acknowledged job is gone");
        assert!(states.values().all(|state| state.is_terminal()));
        let twice: Vec<_> = effects.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "a job is executed at most once: {twice:?}");
        for (id, state) in &states {
            if *state == JobState::Completed {
                assert!(effects.contains_key(id), "{id} is recorded as completed and had no effect");
            }
        }
        // Every chain came to a good end: interruptions are not failures, so a retry followed each.
        let ends = "SELECT count(*) FROM {runs} WHERE final AND outcome <> 'completed'";
        assert_eq!(world.number(ends).await, 0);
        let cut = world.number("SELECT count(*) FROM {runs} WHERE error_code = 'node_lost'").await;
        assert!(cut > 0, "no kill met a running job, so nothing was shown");
        check_slots(world).await;
    }
}

/// One job for each fired slot, and the ledger and the jobs agree.
async fn check_slots(world: &World) {
    let fired = world.number("SELECT count(*) FROM {slots} WHERE decision = 'fired'").await;
    let made = world.number("SELECT count(*) FROM {jobs} WHERE slot_at IS NOT NULL AND retry_of IS NULL").await;
    let apart = world
        .number(
            "SELECT count(*) FROM (SELECT DISTINCT schedule_id, slot_at FROM {jobs}
                               WHERE slot_at IS NOT NULL AND retry_of IS NULL) AS apart",
        )
        .await;
    assert!(fired > 0);
    assert_eq!((made, apart), (fired, fired));
}

on_both_stores! {
    /// A stopped worker is fenced: when it goes on, everything it reports late is refused.
    async fn c09_a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_any_more(world: &World) {
        let jobs: Vec<_> = (0..40).map(|_| NewJob::new(world.target())).collect();
        let made: BTreeSet<_> = world.store.enqueue_jobs(jobs).await.unwrap().into_iter().collect();
        let sleeper = Worker::start(world);
        let running = stop_between_two_writes(world, &sleeper).await;
        let _other = Worker::start(world);
        come_to_rest(world).await;
        let before = world.number("SELECT count(*) FROM {runs}").await;
        signal(&sleeper, "-CONT");
        // It comes back under a new lease once it has noticed; only then has it had its chance to overwrite.
        while world.number("SELECT count(*) FROM {leases}").await < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(world.number("SELECT count(*) FROM {runs}").await, before);
        let lost = world.number("SELECT count(*) FROM {runs} WHERE error_code = 'node_lost'").await;
        assert_eq!(lost, running, "what it held was closed as lost");
        let states = world.all_jobs().await;
        assert!(made.iter().all(|id| states[id].is_terminal()));
    }
}

/// Stops a worker while it has jobs in its hands and is not in the middle of a write. Says how many jobs it holds.
async fn stop_between_two_writes(world: &World, worker: &Worker) -> i64 {
    loop {
        signal(worker, "-STOP");
        let free = world.nobody_writes().await;
        let running = world.number("SELECT count(*) FROM {running}").await;
        if free && running > 0 {
            return running;
        }
        signal(worker, "-CONT");
        assert!(world.number("SELECT count(*) FROM {queue}").await > 0, "all was done before it could be stopped");
    }
}

pub(crate) fn signal(worker: &Worker, signal: &str) {
    let pid = worker.0.id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
}
