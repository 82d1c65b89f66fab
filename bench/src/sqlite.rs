//! The SQLite store against hand-written SQL on the same tables, with the same durability, in the same run.
//!
//! The reference does the same row moves with as little else as possible: one prepared statement for each move, one
//! transaction for each batch. What the store adds is the rules, the types, the threads and the answers.

use crate::figures::{Figure, Report};
use crate::load::{self, BATCH, JOBS, SCHEDULES, SINGLES, TOTAL, per_second};
use jiff::Timestamp;
use punctual_core::id::{IdSource, JobId};
use punctual_core::store::Store;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The same as the database takes it.
const BATCH_LIMIT: i64 = 500;
const ROUNDS: usize = 3;

/// Prints the table.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new("SQLite store against raw SQL of the same layout", ["raw", "store"], ROUNDS);
    for round in 0..ROUNDS {
        // The order alternates, so that a disk that slows down or a cache that warms up favours nobody.
        let mut sides = [Side::Raw, Side::Store];
        if round % 2 == 1 {
            sides.reverse();
        }
        for side in sides {
            let folder = tempfile::tempdir()?;
            let path = folder.path().join("bench.db");
            let store = SqliteStore::open(&path, SqliteOptions::default())?;
            let durability = runtime.block_on(store.durability())?;
            if durability.synchronous != 2 || durability.journal_mode != "wal" {
                return Err(format!("not durable: {durability:?}").into());
            }
            match side {
                Side::Raw => raw_side(&path, &mut report)?,
                Side::Store => {
                    let age = || async { age_schedules(&Connection::open(&path)?) };
                    runtime.block_on(load::store_side(
                        &(Arc::new(store.clone()) as Arc<dyn Store>),
                        age,
                        &mut report,
                    ))?;
                }
            }
            check_all_accounted_for(&path)?;
        }
    }
    report.print();
    Ok(())
}

#[derive(Clone, Copy)]
enum Side {
    Raw,
    Store,
}

/// No figure counts unless every job of the run has ended, once.
fn check_all_accounted_for(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::open(path)?;
    let count =
        |table: &str| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    let (jobs, runs) = (count("punctual_jobs")?, count("punctual_runs")?);
    let (queued, running) = (count("punctual_queue")?, count("punctual_running")?);
    let expected = i64::try_from(TOTAL)?;
    if (jobs, runs, queued, running) != (expected, expected, 0, 0) {
        return Err(format!("jobs {jobs}, runs {runs}, queued {queued}, running {running}; expected {expected}").into());
    }
    Ok(())
}

/// Moves every schedule back by an hour, so that its next slot is due.
fn age_schedules(connection: &Connection) -> Result<(), Box<dyn std::error::Error>> {
    let back = 3_600_000_000_i64;
    connection
        .execute("UPDATE punctual_schedules SET created_at = created_at - ?1, anchor_at = anchor_at - ?1", [back])?;
    connection.execute(
        "UPDATE punctual_schedule_state SET next_slot_at = next_slot_at - ?1, next_run_at = next_run_at - ?1",
        [back],
    )?;
    Ok(())
}

/// The reference: the same moves, by hand.
struct Raw {
    connection: Connection,
    ids: IdSource,
    position: i64,
    lane_id: i64,
}

fn raw_side(path: &Path, report: &mut Report) -> Result<(), Box<dyn std::error::Error>> {
    let mut raw = Raw::open(path)?;
    let started = Instant::now();
    for _ in 0..JOBS / BATCH {
        raw.enqueue(BATCH)?;
    }
    report.add(Figure::EnqueueBatched, (None, Some(per_second(JOBS, started))));
    let started = Instant::now();
    for _ in 0..SINGLES {
        raw.enqueue(1)?;
    }
    let single = per_second(SINGLES, started);
    report.add(Figure::EnqueueSingle, (None, Some(single)));
    // One writer cannot do better with many callers, unless their writes share a commit.
    report.add(Figure::EnqueueManyCallers, (None, Some(single)));
    raw.enqueue(SINGLES)?;
    let started = Instant::now();
    while raw.claim_and_finish()? > 0 {}
    report.add(Figure::ClaimAndFinish, (None, Some(per_second(JOBS + 2 * SINGLES, started))));
    raw.make_due_schedules()?;
    let started = Instant::now();
    while raw.fire()? > 0 {}
    report.add(Figure::Fire, (None, Some(per_second(SCHEDULES, started))));
    while raw.claim_and_finish()? > 0 {}
    Ok(())
}

const TARGET: &str = r#"{"kind":"task","name":"noop"}"#;
const INSERT_JOB: &str = "INSERT INTO punctual_jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us,
                          trigger, schedule_id, slot_at) VALUES (?1, ?2, ?3, 0, ?4, '{}', '{}', 3600000000, ?5, ?6, ?7)";
const INSERT_QUEUED: &str =
    "INSERT INTO punctual_queue (job_id, lane_id, priority, position, created_at, queued_at, ready)
                             VALUES (?1, ?2, 0, ?3, ?4, ?4, 1)";

impl Raw {
    fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute("INSERT INTO punctual_queues (name, created_at) VALUES ('default', 0)", [])?;
        connection.execute("INSERT INTO punctual_lanes (queue, job_type) VALUES ('default', 'task:noop')", [])?;
        let lane_id = connection.last_insert_rowid();
        Ok(Self { connection, ids: IdSource::from_random(uuid::Uuid::new_v4().as_u64_pair().0), position: 0, lane_id })
    }

    fn enqueue(&mut self, count: usize) -> rusqlite::Result<()> {
        let now = Timestamp::now();
        let now_us = now.as_microsecond();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut job = self.connection.prepare_cached(INSERT_JOB)?;
            let mut queued = self.connection.prepare_cached(INSERT_QUEUED)?;
            for _ in 0..count {
                let id = JobId::at(now, self.ids.next_bits());
                self.position += 1 << 20;
                job.execute(params![
                    id.as_bytes(),
                    now_us,
                    self.lane_id,
                    TARGET,
                    "api",
                    None::<[u8; 16]>,
                    None::<i64>
                ])?;
                queued.execute(params![id.as_bytes(), self.lane_id, self.position, now_us])?;
            }
        }
        self.connection.execute_batch("COMMIT")
    }

    fn claim_and_finish(&mut self) -> rusqlite::Result<usize> {
        let now_us = Timestamp::now().as_microsecond();
        let lease = [7_u8; 16];
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let ids = self.claim(now_us, lease)?;
        self.connection.execute_batch("COMMIT")?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut take =
                self.connection.prepare_cached("DELETE FROM punctual_running WHERE job_id = ?1 AND lease_id = ?2")?;
            let mut run = self.connection.prepare_cached(
                "INSERT INTO punctual_runs (job_id, node_id, started_at, finished_at, outcome, final)
                 VALUES (?1, ?2, ?3, ?3, 'completed', 1)",
            )?;
            for id in &ids {
                take.execute(params![id, lease])?;
                run.execute(params![id, lease, now_us])?;
            }
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(ids.len())
    }

    /// Out of the queue, into `running`, with the job's definition read as a node needs it.
    fn claim(&self, now_us: i64, lease: [u8; 16]) -> rusqlite::Result<Vec<[u8; 16]>> {
        let mut heads = self.connection.prepare_cached(
            "SELECT job_id, position FROM punctual_queue WHERE lane_id = ?1 AND ready = 1
             ORDER BY priority DESC, position, created_at, job_id LIMIT ?2",
        )?;
        let heads = heads.query_map(params![self.lane_id, BATCH_LIMIT], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let heads = heads.collect::<rusqlite::Result<Vec<([u8; 16], i64)>>>()?;
        let mut delete = self.connection.prepare_cached("DELETE FROM punctual_queue WHERE job_id = ?1")?;
        let mut running = self.connection.prepare_cached(
            "INSERT INTO punctual_running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                           queued_at, started_at) VALUES (?1, ?2, ?2, ?2, ?3, 0, ?4, ?5, ?5, ?5)",
        )?;
        let mut read =
            self.connection.prepare_cached("SELECT target, input, retry FROM punctual_jobs WHERE id = ?1")?;
        for (id, position) in &heads {
            delete.execute(params![id])?;
            running.execute(params![id, lease, self.lane_id, position, now_us])?;
            read.query_row(params![id], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
        }
        Ok(heads.into_iter().map(|(id, _)| id).collect())
    }

    fn make_due_schedules(&mut self) -> rusqlite::Result<()> {
        let now_us = Timestamp::now().as_microsecond();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        for n in 0..SCHEDULES {
            let id = JobId::at(Timestamp::now(), self.ids.next_bits());
            self.connection
                .prepare_cached(
                    "INSERT INTO punctual_schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
                 VALUES (?1, ?2, '* * * * *', ?3, ?2, ?4, ?4, ?4)",
                )?
                .execute(params![id.as_bytes(), format!("s{n}"), TARGET, now_us - 120_000_000])?;
            self.connection
                .prepare_cached(
                    "INSERT INTO punctual_schedule_state (schedule_id, next_slot_at, next_run_at) VALUES (?1, ?2, ?2)",
                )?
                .execute(params![id.as_bytes(), now_us - 60_000_000])?;
        }
        self.connection.execute_batch("COMMIT")
    }

    /// Lock, ledger row, job, queue, live list, new plan; the next slot is a sum, not a search.
    fn fire(&mut self) -> rusqlite::Result<usize> {
        let now = Timestamp::now();
        let now_us = now.as_microsecond();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let due = self.due(now_us)?;
        for (schedule, slot_at) in &due {
            let id = JobId::at(now, self.ids.next_bits());
            self.position += 1 << 20;
            let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| self.connection.prepare_cached(sql)?.execute(params);
            run(
                "INSERT INTO punctual_slots (schedule_id, slot_at, through, count, decision, reason, job_id, decided_at,
                 late_ms, schedule_version) VALUES (?1, ?2, ?2, 1, 'fired', 'on_time', ?3, ?4, 0, 1)",
                &[schedule, slot_at, id.as_bytes(), &now_us],
            )?;
            run(INSERT_JOB, &[id.as_bytes(), &now_us, &self.lane_id, &TARGET, &"schedule", schedule, slot_at])?;
            run(INSERT_QUEUED, &[id.as_bytes(), &self.lane_id, &self.position, &now_us])?;
            run(
                "INSERT INTO punctual_schedule_live (schedule_id, job_id) VALUES (?1, ?2)",
                &[schedule, id.as_bytes()],
            )?;
            run(
                "UPDATE punctual_schedule_state SET next_slot_at = ?2, next_run_at = ?2, last_slot_at = ?3, fired_through = ?3,
                 last_job_id = ?4, last_enqueued_at = ?5 WHERE schedule_id = ?1",
                &[schedule, &(now_us + 60_000_000), slot_at, id.as_bytes(), &now_us],
            )?;
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(due.len())
    }

    fn due(&self, now_us: i64) -> rusqlite::Result<Vec<([u8; 16], i64)>> {
        let mut due = self.connection.prepare_cached(
            "SELECT t.schedule_id, t.next_slot_at, s.target FROM punctual_schedule_state AS t
             JOIN punctual_schedules AS s ON s.id = t.schedule_id
             WHERE t.enabled = 1 AND t.next_run_at IS NOT NULL AND t.next_run_at <= ?1
             ORDER BY t.next_run_at, t.schedule_id LIMIT ?2",
        )?;
        due.query_map(params![now_us, BATCH_LIMIT], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }
}
