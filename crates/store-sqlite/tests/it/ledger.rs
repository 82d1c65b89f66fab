//! The last line of defence: statements, savepoints and indexes, each without the rules that stand before it.

use jiff::Timestamp;
use punctual_core::id::ClaimId;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{Cancelled, ClaimRequest, NewNode, Store};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_store_sqlite::{SqliteOptions, SqliteStore, sql};
use punctual_testkit::VirtualClock;
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;

fn world(folder: &Path) -> (SqliteStore, Arc<VirtualClock>, Connection) {
    let (path, clock) = (folder.join("ledger.db"), Arc::new(VirtualClock::new()));
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    (SqliteStore::open(&path, options).unwrap(), clock, Connection::open(&path).unwrap())
}

fn minutely(name: &str) -> ScheduleDefinition {
    let timing = TimingSpec::cron("* * * * *", "UTC");
    ScheduleDefinition::new(Name::new(name).unwrap(), timing, Target::command(["true"]))
}

fn insert_slot(connection: &Connection, schedule: &[u8; 16], slot_at: Timestamp) -> usize {
    let (_, statement) = sql::ALL.iter().find(|(name, _)| *name == "insert_slot").unwrap();
    let at = slot_at.as_microsecond();
    let no_id = None::<[u8; 16]>;
    let params = params![schedule, at, at, 1, "skipped", "edited", no_id, at, no_id, 0, 1, None::<String>];
    connection.execute(statement, params).unwrap()
}

/// `Schedule::fire` never asks for such a slot; the ledger must not rely on that.
#[tokio::test]
async fn a04_the_ledger_takes_no_slot_at_or_below_the_watermark() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, connection) = world(folder.path());
    let schedule = store.create_schedule(minutely("pruned")).await.unwrap();
    let first = schedule.state.next_slot_at.unwrap();
    clock.set(first);
    assert_eq!(store.fire_due(None, 10).await.unwrap().jobs.len(), 1);
    connection.execute("UPDATE punctual_retention SET before = ?1, pruning = 1", [i64::MAX]).unwrap();
    assert_eq!(connection.execute("DELETE FROM punctual_slots", []).unwrap(), 1);

    let (id, minute) = (schedule.id.as_bytes(), jiff::SignedDuration::from_mins(1));
    assert_eq!(insert_slot(&connection, id, first - minute), 0);
    assert_eq!(insert_slot(&connection, id, first), 0);
    assert_eq!(insert_slot(&connection, id, first + minute), 1);
    assert_eq!(insert_slot(&connection, id, first + minute), 0);
}

#[tokio::test]
async fn e02_a_firing_that_fails_half_way_leaves_nothing_behind_and_holds_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (store, clock, connection) = world(folder.path());
    let broken = store.create_schedule(minutely("a broken")).await.unwrap();
    let sound = store.create_schedule(minutely("b sound")).await.unwrap();
    // The queue is the last thing a firing writes, after the ledger and the job.
    let refuse = format!(
        "CREATE TRIGGER broken BEFORE INSERT ON punctual_queue WHEN NEW.schedule_id = X'{}'
         BEGIN SELECT raise(ABORT, 'no room here'); END",
        broken.id.0.simple()
    );
    connection.execute_batch(&refuse).unwrap();
    clock.set(broken.state.next_slot_at.unwrap());
    let fired = store.fire_due(None, 10).await.unwrap();
    assert_eq!((fired.jobs.len(), fired.problems), (1, 1));
    assert_eq!(store.slots(broken.id, None, 10).await.unwrap(), []);
    assert_eq!(store.schedule_jobs(broken.id, None, 10).await.unwrap(), []);
    assert_eq!(store.slots(sound.id, None, 10).await.unwrap().len(), 1);
    let problem = store.schedule(&broken.id.into()).await.unwrap().unwrap().state.problem.unwrap();
    assert!(problem.contains("no room here"), "{problem}");
}

#[tokio::test]
async fn a06_the_file_holds_no_two_jobs_of_one_key_that_may_run() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _clock, connection) = world(folder.path());
    let keyed = |key: &str| NewJob { serial_key: Some(key.to_owned()), ..NewJob::new(Target::task("work")) };
    store.enqueue_jobs(vec![keyed("a"), keyed("b"), keyed("b")]).await.unwrap();
    connection.execute("UPDATE punctual_queue SET ready = 1", []).unwrap_err();

    let job_types = vec!["task:work".to_owned()];
    let lease = store.register_node(NewNode { name: "n".to_owned(), offers: job_types.clone() }).await.unwrap();
    let claim_id = ClaimId(uuid::Uuid::from_u128(1));
    let request = ClaimRequest { lease, claim_id, queues: Vec::new(), job_types, limit: 10 };
    assert_eq!(store.claim_jobs_if_leased(request).await.unwrap().len(), 2);
    connection.execute("UPDATE punctual_running SET serial_key = 'a'", []).unwrap_err();
    assert_eq!(connection.execute("UPDATE punctual_running SET serial_key = NULL", []).unwrap(), 2);
}

/// A transaction that began by reading could not write any more after somebody else has written.
#[tokio::test]
async fn c01_a_write_waits_for_another_process_and_then_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _clock, connection) = world(folder.path());
    let id = store.enqueue_jobs(vec![NewJob::new(Target::task("work"))]).await.unwrap()[0];
    connection.execute_batch("BEGIN IMMEDIATE; UPDATE punctual_queue SET priority = 1").unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.cancel_job(id).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(Cancelled::BeforeStart));
}
