//! Facts that only a mutant had shown to be missing: locks that are passed over or waited for, rules that stand behind
//! another rule, whose clock it is, and what goes with a partition and what does not.

use crate::harness::{Own, done, fresh_database, node, options, until_waiting};
use crate::partitions::{HOUR, hourly_partitions, partitions, prune};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::JobId;
use punctual_core::job::{Artifact, JobState, NewJob, Whereabouts};
use punctual_core::store::{Clock, Pruned, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore, sql};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;
use std::future::Future;
use std::time::{Duration, SystemTime};
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// The answer of somebody who has to wait for nobody.
async fn at_once<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), work).await.expect("nobody is waited for")
}

async fn claim(own: &Own, lease: punctual_core::store::Lease, limit: usize) -> Vec<JobId> {
    let claimed = at_once(own.store.claim_jobs_if_leased(claim_request(lease, limit))).await.unwrap();
    claimed.iter().map(|claimed| claimed.job.id).collect()
}

#[test]
fn c07_a_claim_passes_over_what_somebody_else_has_locked() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let made = own.store.enqueue_jobs(vec![job(); 3]).await.unwrap();
        let mut other = own.database.connect().await;
        let claiming = other.transaction().await.unwrap();
        let lock = "SELECT 1 FROM punctual_internal.queue WHERE job_id = $1 FOR UPDATE";
        claiming.query_one(lock, &[&made[0].0]).await.unwrap();
        assert_eq!(claim(&own, lease, 1).await, [made[1]]);
        claiming.rollback().await.unwrap();
        assert_eq!(claim(&own, lease, ALL).await, [made[0], made[2]]);
    });
}

#[test]
fn c05_a_claim_goes_by_age_before_id() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let made = own.store.enqueue_jobs(vec![job(); 3]).await.unwrap();
        // Ids grow with age, so that only a change by hand tells the two apart.
        let client = own.database.connect().await;
        let turn_round = "UPDATE punctual_internal.queue
                          SET position = 7, created_at = created_at - position / 1048576 * interval '1 s'";
        client.batch_execute(turn_round).await.unwrap();
        assert_eq!(claim(&own, lease, 1).await, [made[2]]);
        assert_eq!(claim(&own, lease, ALL).await, [made[1], made[0]]);
    });
}

#[test]
fn c05_a_small_claim_takes_the_first_of_all_lanes_together() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let mut made = Vec::new();
        for (queue, priority) in [("a", 0), ("b", 0), ("a", 1), ("c", 2), ("b", 0), ("b", 1)] {
            own.clock.advance(secs(1));
            let spec = NewJob { queue: queue.to_owned(), priority, ..job() };
            made.extend(own.store.enqueue_jobs(vec![spec]).await.unwrap());
        }
        assert_eq!(claim(&own, lease, 2).await, [made[3], made[2]]);
        assert_eq!(claim(&own, lease, 2).await, [made[5], made[0]]);
        assert_eq!(claim(&own, lease, 2).await, [made[1], made[4]]);
    });
}

#[test]
fn d01_firing_and_promoting_pass_over_what_somebody_else_has_locked() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let mut schedules = Vec::new();
        for name in ["due", "due too", "unplanned", "unplanned too"] {
            schedules.push(own.store.create_schedule(minutely(name)).await.unwrap().id);
        }
        let later = NewJob { run_at: Some(own.clock.now() + mins(1)), ..job() };
        let delayed = own.store.enqueue_jobs(vec![later; 2]).await.unwrap();
        own.clock.advance(mins(1));
        let mut other = own.database.connect().await;
        let forget = "UPDATE punctual_internal.schedule_state SET next_slot_at = NULL, next_run_at = NULL
                      WHERE schedule_id = ANY ($1)";
        other.execute(forget, &[&vec![schedules[2].0, schedules[3].0]]).await.unwrap();
        let deciding = other.transaction().await.unwrap();
        let lock = "SELECT 1 FROM punctual_internal.schedule_state WHERE schedule_id = ANY ($1) FOR UPDATE";
        deciding.query(lock, &[&vec![schedules[0].0, schedules[2].0]]).await.unwrap();
        let lock = "SELECT 1 FROM punctual_internal.delayed WHERE job_id = $1 FOR UPDATE";
        deciding.query(lock, &[&delayed[0].0]).await.unwrap();
        for _ in 0..2 {
            // One of each kind; the second time there is nothing left but what is locked.
            let fired = at_once(own.store.fire_due(None, ALL)).await.unwrap();
            assert!(fired.jobs.len() == fired.replanned && fired.jobs.len() * 2 == fired.schedules, "{fired:?}");
            at_once(own.store.promote_due_jobs(ALL)).await.unwrap();
        }
        assert_eq!(own.store.slots(schedules[1], None, ALL).await.unwrap().len(), 1);
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.delayed").await, 1);
        deciding.rollback().await.unwrap();
        let fired = own.store.fire_due(None, ALL).await.unwrap();
        assert_eq!((fired.jobs.len(), fired.replanned), (1, 1));
        assert_eq!(own.store.promote_due_jobs(ALL).await, Ok(1));
    });
}

/// Keeps the claim of a job from going on behind its first statements: the job seems to run already.
const IN_THE_WAY: &str = "
    INSERT INTO punctual_internal.running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                           queued_at, started_at)
    SELECT job_id, job_id, job_id, job_id, lane_id, priority, position, created_at, queued_at, queued_at
    FROM punctual_internal.queue";

#[test]
fn c11_whoever_pauses_or_reserves_a_queue_waits_for_claims_that_are_going_on() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let made = own.store.enqueue_jobs(vec![job()]).await.unwrap();
        let mut other = own.database.connect().await;
        let blocker = other.transaction().await.unwrap();
        assert_eq!(blocker.execute(IN_THE_WAY, &[]).await.unwrap(), 1);
        let store = own.store.clone();
        let claiming = tokio::spawn(async move { store.claim_jobs_if_leased(claim_request(lease, 1)).await });
        until_waiting(&own, 1).await;
        let store = own.store.clone();
        let pausing = tokio::spawn(async move { store.set_queue_paused("default", true).await });
        let store = own.store.clone();
        let reserving = tokio::spawn(async move { store.reserve_queue("default", "me", mins(1)).await });
        until_waiting(&own, 3).await;
        blocker.rollback().await.unwrap();
        assert_eq!(claiming.await.unwrap().unwrap()[0].job.id, made[0]);
        assert_eq!(pausing.await.unwrap(), Ok(()));
        reserving.await.unwrap().expect("it is reserved");
    });
}

#[test]
fn c08_a_node_that_leaves_waits_for_its_claims_that_are_going_on() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        own.store.enqueue_jobs(vec![job()]).await.unwrap();
        let mut other = own.database.connect().await;
        let blocker = other.transaction().await.unwrap();
        assert_eq!(blocker.execute(IN_THE_WAY, &[]).await.unwrap(), 1);
        let store = own.store.clone();
        let claiming = tokio::spawn(async move { store.claim_jobs_if_leased(claim_request(lease, 1)).await });
        until_waiting(&own, 1).await;
        let store = own.store.clone();
        let leaving = tokio::spawn(async move { store.leave_if_leased(lease).await });
        until_waiting(&own, 2).await;
        blocker.rollback().await.unwrap();
        assert_eq!(claiming.await.unwrap().unwrap().len(), 1);
        assert_eq!(refusal(leaving.await.unwrap()).field, "lease", "it runs something now");
    });
}

#[test]
fn a06_whoever_changes_a_key_waits_for_whoever_is_changing_it() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.enqueue_jobs(vec![serial_job("k")]).await.unwrap();
        let mut other = own.database.connect().await;
        let changing = other.transaction().await.unwrap();
        changing.query_one("SELECT 1 FROM punctual_internal.serial_keys FOR UPDATE", &[]).await.unwrap();
        assert_eq!(at_once(own.store.enqueue_jobs(vec![serial_job("another")])).await.map(|made| made.len()), Ok(1));
        let store = own.store.clone();
        let second = tokio::spawn(async move { store.enqueue_jobs(vec![serial_job("k")]).await });
        until_waiting(&own, 1).await;
        changing.rollback().await.unwrap();
        assert_eq!(second.await.unwrap().map(|made| made.len()), Ok(1));
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.queue WHERE ready").await, 2);
    });
}

#[test]
fn d02_the_databases_clock_decides_whatever_the_nodes_own_says() {
    block_on(async {
        // A database that is a thousand days ahead of this machine: its `now()` is found before the catalogue's.
        let database = fresh_database().await;
        let client = database.connect().await;
        let ahead = "CREATE SCHEMA ahead;
                     CREATE FUNCTION ahead.now() RETURNS timestamptz LANGUAGE sql STABLE
                       AS 'SELECT pg_catalog.now() + interval ''1000 days'''";
        client.batch_execute(ahead).await.unwrap();
        let url = format!("{}?options=-c%20search_path%3Dahead%2Cpg_catalog", database.url());
        let store = PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
        let days = |days: i64| Timestamp::now() + SignedDuration::from_hours(24 * days);
        let far = days(999);
        let schedule = store.create_schedule(minutely("ahead")).await.unwrap();
        let lease = store.register_node(node("a")).await.unwrap();
        let at = |run_at| NewJob { run_at: Some(run_at), ..job() };
        let made = store.enqueue_jobs(vec![at(days(500)), at(days(1500))]).await.unwrap();
        let first = store.job(made[0]).await.unwrap().unwrap();
        assert_eq!(first.state(), JobState::Queued, "its time has come where it counts");
        assert_eq!(store.job(made[1]).await.unwrap().unwrap().state(), JobState::Scheduled);
        assert_eq!(store.promote_due_jobs(ALL).await, Ok(0));
        assert!(store.next_due_in().await.unwrap().unwrap() <= mins(1));
        let claimed = store.claim_jobs_if_leased(claim_request(lease, 1)).await.unwrap();
        store.finish_runs_if_leased(lease, vec![done(made[0])]).await.unwrap();
        let Whereabouts::Closed(run) = store.job(made[0]).await.unwrap().unwrap().whereabouts else {
            panic!("it has ended");
        };
        client
            .batch_execute("UPDATE punctual_internal.delayed SET run_at = ahead.now() - interval '1 s'")
            .await
            .unwrap();
        assert_eq!(store.promote_due_jobs(ALL).await, Ok(1));
        // As if it had been made an hour ago, with a slot at the last full minute.
        let due = "UPDATE punctual_internal.schedules
                   SET created_at = created_at - interval '1 h', anchor_at = anchor_at - interval '1 h';
                   UPDATE punctual_internal.schedule_state
                   SET next_slot_at = date_trunc('minute', ahead.now()), next_run_at = date_trunc('minute', ahead.now())";
        client.batch_execute(due).await.unwrap();
        assert_eq!(store.fire_due(None, ALL).await.unwrap().jobs.len(), 1);
        let decided = store.slots(schedule.id, None, 1).await.unwrap()[0].decided_at;
        let reserved = store.reserve_queue("default", "me", mins(1)).await.unwrap().reserved_at;
        assert!(store.reservation("default").await.unwrap().is_some());
        let told = store.now().await.unwrap();
        let times = [schedule.created_at, first.job.created_at, claimed[0].started_at, run.finished_at];
        for at in times.into_iter().chain([decided, reserved, told]) {
            assert!(at > far, "{at} > {far}");
        }
    });
}

/// Writes one decision as the store does; says how many rows the ledger took.
async fn decide(client: &Client, schedule: Uuid, slot_at: Timestamp) -> usize {
    let (_, statement) = sql::ALL.iter().find(|(name, _)| *name == "insert_slots").unwrap();
    let (at, nobody) = (SystemTime::from(slot_at), None::<Uuid>);
    let (id, slot, job, number) = (vec![schedule], vec![at], vec![nobody], vec![1_i64]);
    let (decision, reason) = (vec!["skipped"], vec!["edited"]);
    let note = vec![None::<&str>];
    let params: [&(dyn ToSql + Sync); 12] =
        [&at, &nobody, &id, &slot, &slot, &number, &decision, &reason, &job, &number, &number, &note];
    client.query(*statement, &params).await.unwrap().len()
}

/// `Schedule::fire` never asks for such a slot; the ledger must not rely on that.
#[test]
fn a04_the_ledger_takes_no_slot_at_or_below_the_watermark() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let schedule = own.store.create_schedule(minutely("pruned")).await.unwrap();
        let first = schedule.state.next_slot_at.unwrap();
        own.clock.set(first);
        assert_eq!(own.store.fire_due(None, 10).await.unwrap().jobs.len(), 1);
        let client = own.database.connect().await;
        client
            .batch_execute("UPDATE punctual_internal.retention SET before = 'infinity', pruning = true")
            .await
            .unwrap();
        assert_eq!(client.execute("DELETE FROM punctual_internal.slots", &[]).await.unwrap(), 1);
        assert_eq!(decide(&client, schedule.id.0, first - mins(1)).await, 0);
        assert_eq!(decide(&client, schedule.id.0, first).await, 0);
        assert_eq!(decide(&client, schedule.id.0, first + mins(1)).await, 1);
        assert_eq!(decide(&client, schedule.id.0, first + mins(1)).await, 0);
    });
}

#[test]
fn e02_a_firing_that_fails_half_way_leaves_nothing_behind_and_holds_up_nobody() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let bad = own.store.create_schedule(minutely("a bad")).await.unwrap().id;
        let sound = own.store.create_schedule(minutely("b sound")).await.unwrap().id;
        let client = own.database.connect().await;
        let refuse = format!(
            "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql
               AS $$ BEGIN RAISE EXCEPTION 'no room here'; END $$;
             CREATE TRIGGER refuse BEFORE INSERT ON punctual_internal.queue FOR EACH ROW
               WHEN (NEW.schedule_id = '{}') EXECUTE FUNCTION public.refuse()",
            bad.0
        );
        client.batch_execute(&refuse).await.unwrap();
        own.clock.advance(mins(1));
        let fired = own.store.fire_due(None, 10).await.unwrap();
        assert_eq!((fired.jobs.len(), fired.problems), (1, 1));
        assert_eq!(own.store.slots(bad, None, 10).await.unwrap(), []);
        assert_eq!(own.store.schedule_jobs(bad, None, 10).await.unwrap(), []);
        assert_eq!(own.store.slots(sound, None, 10).await.unwrap().len(), 1);
        let problem = own.store.schedule(&bad.into()).await.unwrap().unwrap().state.problem.unwrap();
        assert!(problem.contains("no room here"), "{problem}");
    });
}

#[test]
fn a06_the_database_holds_no_two_jobs_of_one_key_that_may_run() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.enqueue_jobs(vec![serial_job("a"), serial_job("b"), serial_job("b")]).await.unwrap();
        let client = own.database.connect().await;
        client.batch_execute("UPDATE punctual_internal.queue SET ready = true").await.unwrap_err();
        let lease = own.store.register_node(node("a")).await.unwrap();
        assert_eq!(claim(&own, lease, ALL).await.len(), 2);
        client.batch_execute("UPDATE punctual_internal.running SET serial_key = 'a'").await.unwrap_err();
        let free = client.execute("UPDATE punctual_internal.running SET serial_key = NULL", &[]).await;
        assert_eq!(free.unwrap(), 2);
    });
}

#[test]
fn c03_no_ledger_can_be_emptied_at_a_stroke() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let client = own.database.connect().await;
        let parts =
            "SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE relkind = 'r'";
        let parts: Vec<String> = client.query(parts, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert!(parts.len() >= 6, "partitions and the default ones: {parts:?}");
        let whole = ["jobs", "runs", "slots", "artifacts", "artifact_contents", "run_logs", "step_memos"]
            .map(|ledger| format!("punctual_internal.{ledger}"));
        for ledger in whole.into_iter().chain(parts) {
            let refused = client.batch_execute(&format!("TRUNCATE {ledger}")).await.expect_err("it cannot be emptied");
            let words = refused.as_db_error().expect("the database refuses").message().to_owned();
            assert!(words.starts_with("punctual: "), "{ledger}: {words}");
        }
    });
}

#[test]
fn a10_slots_that_must_stay_outlive_their_partition() {
    block_on(async {
        let own = hourly_partitions().await;
        let schedule = own.store.create_schedule(hourly("moved")).await.unwrap().id;
        // The slot at one o'clock is given up: decided above the watermark, so that its row is the only proof.
        own.store.reschedule(schedule, own.clock.now() + mins(10)).await.unwrap();
        own.clock.advance(mins(10));
        assert_eq!(own.store.fire_due(None, ALL).await.unwrap().jobs.len(), 1);
        own.clock.advance(HOUR * 5);
        let before = partitions(&own, "slots").await;
        assert_eq!(prune(&own, own.clock.now() - HOUR * 2).await, Pruned { slots: 1, ..Pruned::default() });
        assert!(partitions(&own, "slots").await < before, "partitions are gone");
        let rows = own.store.slots(schedule, None, ALL).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.slot_at).collect::<Vec<_>>(), [clock_time("01:00:00")]);
    });
}

#[test]
fn c13_artifacts_go_with_the_partition_of_their_run() {
    block_on(async {
        let own = hourly_partitions().await;
        let lease = own.store.register_node(node("a")).await.unwrap();
        let made = own.store.enqueue_jobs(vec![job(), job()]).await.unwrap();
        claim(&own, lease, ALL).await;
        for id in &made {
            let artifact = Artifact {
                name: "log".to_owned(),
                location: "file:log".to_owned(),
                size_bytes: 1,
                sha256: "0".repeat(64),
            };
            own.store.add_artifacts_if_leased(lease, *id, vec![artifact]).await.unwrap();
        }
        own.store.finish_runs_if_leased(lease, vec![done(made[0])]).await.unwrap();
        own.clock.advance(HOUR * 5);
        assert_eq!(prune(&own, own.clock.now() - HOUR * 2).await.jobs, 1);
        assert_eq!(own.store.artifacts(made[0]).await.unwrap(), []);
        assert_eq!(own.store.artifacts(made[1]).await.unwrap().len(), 1, "it runs yet");
    });
}

#[test]
fn a25_a_worker_makes_and_drops_partitions_that_are_not_its_own() {
    block_on(async {
        let own = hourly_partitions().await;
        own.store.apply_roles().await.unwrap();
        let as_worker = format!("{}?options=-c%20role%3Dpunctual_worker", own.database.url());
        own.clock.advance(HOUR * 5);
        let before = partitions(&own, "jobs").await;
        let worker = PostgresOptions { partition_span: HOUR, ..options(own.clock.clone()) };
        let store = PostgresStore::connect(&as_worker, worker).await.unwrap();
        assert!(partitions(&own, "jobs").await > before, "those of the new time are made");
        let own = Own { store, ..own };
        let all = partitions(&own, "jobs").await;
        prune(&own, own.clock.now() - HOUR * 2).await;
        assert!(partitions(&own, "jobs").await < all, "the old ones are gone");
        assert_eq!(partitions(&own, "jobs").await, partitions(&own, "slots").await);
    });
}

#[test]
fn c12_a_caller_who_goes_away_between_two_writes_leaves_neither() {
    block_on(async {
        let own = Own::with(|options| options.pool_size = 1).await;
        let mut other = own.database.connect().await;
        let blocker = other.transaction().await.unwrap();
        blocker.execute("LOCK TABLE punctual_internal.schedule_state", &[]).await.unwrap();
        let store = own.store.clone();
        // The definition is written, and its state waits.
        let gone = tokio::spawn(async move { store.create_schedule(minutely("half")).await });
        until_waiting(&own, 1).await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        blocker.rollback().await.unwrap();
        own.store.register_node(node("a")).await.expect("the next one has a connection without a past");
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.nodes").await, 1);
        assert_eq!(own.number("SELECT count(*) FROM punctual_internal.schedules").await, 0);
    });
}
