//! Real workers, killed for real: what was acknowledged is kept, what ran ran once, what was cut short is told.

use punctual_core::id::JobId;
use punctual_core::job::{JobState, NewJob};
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Store;
use punctual_core::target::{Command, Target};
use punctual_core::timing::TimingSpec;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KILLS: usize = 20;
const LEASE: &str = "2s";

/// A worker process; killed when it is dropped, so that a failing test leaves nothing behind.
struct Worker(Child);

impl Worker {
    /// Starts one and waits until it says that it is ready.
    fn start(database: &Path) -> Self {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_punctual"))
            .args(["worker", "--database", &format!("sqlite:{}", database.display())])
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
    fn kill(&mut self) {
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

/// A store, and a file in which every command says that it ran.
struct World {
    store: Arc<SqliteStore>,
    database: PathBuf,
    effects: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("crash.db");
        let store = SqliteStore::open(&database, SqliteOptions::default()).unwrap();
        Self { store: Arc::new(store), database, effects: folder.path().join("effects"), _folder: folder }
    }

    /// A command that takes a moment, and leaves one line in the end: appended in one write, so lines never mix.
    fn target(&self) -> Target {
        let script = "sleep 0.02; echo \"$PUNCTUAL_JOB_ID\" >> \"$EFFECTS\"";
        Target::Command(Command {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("EFFECTS".to_owned(), self.effects.display().to_string())]),
            cwd: None,
        })
    }

    /// How often each job had its effect.
    fn effects(&self) -> BTreeMap<JobId, usize> {
        let mut counts = BTreeMap::new();
        for line in std::fs::read_to_string(&self.effects).unwrap_or_default().lines() {
            *counts.entry(line.parse().unwrap()).or_default() += 1;
        }
        counts
    }

    fn numbers(&self, sql: &str) -> i64 {
        let connection = rusqlite::Connection::open(&self.database).unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Every job that exists, with its state.
    async fn all_jobs(&self) -> BTreeMap<JobId, JobState> {
        let connection = rusqlite::Connection::open(&self.database).unwrap();
        let mut statement = connection.prepare("SELECT id FROM punctual_jobs").unwrap();
        let ids: Vec<[u8; 16]> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let mut states = BTreeMap::new();
        for id in ids.into_iter().map(JobId::from_bytes) {
            states.insert(id, self.store.job(id).await.unwrap().unwrap().state());
        }
        states
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
    let open = "SELECT (SELECT count(*) FROM punctual_queue) + (SELECT count(*) FROM punctual_delayed)
                     + (SELECT count(*) FROM punctual_running)";
    while world.numbers(open) > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_killing_workers_loses_nothing_and_runs_nothing_twice() {
    let world = World::new();
    schedule_every_second(&world).await;
    let stop = Arc::new(AtomicBool::new(false));
    let producer = produce(&world, Arc::clone(&stop));
    for n in 0..KILLS {
        let mut worker = Worker::start(&world.database);
        // At odd moments, so that firing, claiming, running and finishing are all cut.
        tokio::time::sleep(Duration::from_millis(60 + 37 * (u64::try_from(n).unwrap() % 9))).await;
        worker.kill();
    }
    stop.store(true, Ordering::SeqCst);
    let acknowledged = producer.await.unwrap();
    let _last = Worker::start(&world.database);
    come_to_rest(&world).await;

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
    let ends = "SELECT count(*) FROM punctual_runs WHERE final = 1 AND outcome <> 'completed'";
    assert_eq!(world.numbers(ends), 0);
    let cut = world.numbers("SELECT count(*) FROM punctual_runs WHERE error_code = 'node_lost'");
    assert!(cut > 0, "no kill met a running job, so nothing was shown");
    check_slots(&world);
}

/// One job for each fired slot, and the ledger and the jobs agree.
fn check_slots(world: &World) {
    let fired = world.numbers("SELECT count(*) FROM punctual_slots WHERE decision = 'fired'");
    let made = world.numbers("SELECT count(*) FROM punctual_jobs WHERE slot_at IS NOT NULL AND retry_of IS NULL");
    let apart = world.numbers(
        "SELECT count(*) FROM (SELECT DISTINCT schedule_id, slot_at FROM punctual_jobs
                               WHERE slot_at IS NOT NULL AND retry_of IS NULL)",
    );
    assert!(fired > 0);
    assert_eq!((made, apart), (fired, fired));
}

/// A stopped worker is fenced: when it goes on, everything it reports late is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c09_a_worker_that_was_stopped_for_longer_than_its_lease_changes_nothing_any_more() {
    let world = World::new();
    let jobs: Vec<_> = (0..40).map(|_| NewJob::new(world.target())).collect();
    let made: BTreeSet<_> = world.store.enqueue_jobs(jobs).await.unwrap().into_iter().collect();
    let sleeper = Worker::start(&world.database);
    let running = stop_between_two_writes(&world, &sleeper);
    let _other = Worker::start(&world.database);
    come_to_rest(&world).await;
    let before = world.numbers("SELECT count(*) FROM punctual_runs");
    signal(&sleeper, "-CONT");
    // It comes back under a new lease once it has noticed; only then has it had its chance to overwrite.
    while world.numbers("SELECT count(*) FROM punctual_leases") < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.numbers("SELECT count(*) FROM punctual_runs"), before);
    let lost = world.numbers("SELECT count(*) FROM punctual_runs WHERE error_code = 'node_lost'");
    assert_eq!(lost, running, "what it held was closed as lost");
    let states = world.all_jobs().await;
    assert!(made.iter().all(|id| states[id].is_terminal()));
}

/// Stops a worker while it has jobs in its hands and the file's lock is free: SQLite has one writer, and one that is
/// stopped in the middle of a write holds up everybody. Says how many jobs it holds.
fn stop_between_two_writes(world: &World, worker: &Worker) -> i64 {
    let connection = rusqlite::Connection::open(&world.database).unwrap();
    connection.busy_timeout(Duration::from_millis(100)).unwrap();
    loop {
        signal(worker, "-STOP");
        let free = connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok();
        let running = world.numbers("SELECT count(*) FROM punctual_running");
        if free && running > 0 {
            return running;
        }
        signal(worker, "-CONT");
        assert!(world.numbers("SELECT count(*) FROM punctual_queue") > 0, "all was done before it could be stopped");
    }
}

fn signal(worker: &Worker, signal: &str) {
    let pid = worker.0.id().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
}
