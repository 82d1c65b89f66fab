//! The reference for the SQLite store: the same row moves on the same tables by hand-written SQL, prepared once.

use crate::Outcome;
use jiff::Timestamp;
use punctual_core::id::{IdSource, JobId};
use rusqlite::{Connection, params};
use std::path::Path;

/// A connection, and what the moves need.
pub struct Raw {
    connection: Connection,
    ids: IdSource,
    position: i64,
    lane_id: i64,
}

/// A job as a claim hands it out.
type Claimed = [u8; 16];

/// Whose jobs they are while they run.
const LEASE: [u8; 16] = [7; 16];
const HOUR_US: i64 = 3_600_000_000;

const TARGET: &str = r#"{"kind":"task","name":"noop"}"#;

const INSERT_JOB: &str =
    "INSERT INTO punctual_jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us,
  trigger, schedule_id, slot_at) VALUES (?1, ?2, ?3, 0, ?4, '{}', '{}', 3600000000, ?5, ?6, ?7)";

const INSERT_QUEUED: &str =
    "INSERT INTO punctual_queue (job_id, lane_id, priority, position, created_at, queued_at, ready)
  VALUES (?1, ?2, 0, ?3, ?4, ?4, 1)";

const READ_HEADS: &str = "SELECT j.id, j.target, j.input, j.retry FROM (
    SELECT job_id FROM punctual_queue WHERE lane_id = ?1 AND ready = 1
    ORDER BY priority DESC, position, created_at, job_id LIMIT ?2) AS s
  CROSS JOIN punctual_jobs AS j ON j.id = s.job_id";

const START_HEADS: &str =
    "INSERT INTO punctual_running (job_id, node_id, lease_id, claim_id, lane_id, priority, position,
    created_at, queued_at, started_at)
  SELECT job_id, ?3, ?3, ?3, lane_id, priority, position, created_at, queued_at, ?4 FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1 ORDER BY priority DESC, position, created_at, job_id LIMIT ?2";

const DROP_HEADS: &str = "DELETE FROM punctual_queue WHERE job_id IN (SELECT job_id FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1 ORDER BY priority DESC, position, created_at, job_id LIMIT ?2)";

const INSERT_RUN: &str = "INSERT INTO punctual_runs (job_id, node_id, started_at, finished_at, outcome, final)
  VALUES (?1, ?2, ?3, ?3, 'completed', 1)";

const DUE: &str = "SELECT t.schedule_id, t.next_slot_at, s.target FROM punctual_schedule_state AS t
  JOIN punctual_schedules AS s ON s.id = t.schedule_id
  WHERE t.enabled = 1 AND t.next_run_at IS NOT NULL AND t.next_run_at <= ?1
  ORDER BY t.next_run_at, t.schedule_id LIMIT ?2";

const INSERT_SLOT: &str = "INSERT INTO punctual_slots (schedule_id, slot_at, through, count, decision, reason, job_id,
  decided_at, late_ms, schedule_version) VALUES (?1, ?2, ?2, 1, 'fired', 'on_time', ?3, ?4, 0, 1)";

const NEW_PLAN: &str = "UPDATE punctual_schedule_state SET next_slot_at = ?2, next_run_at = ?2, last_slot_at = ?3,
  fired_through = ?3, last_job_id = ?4, last_enqueued_at = ?5 WHERE schedule_id = ?1";

const INSERT_SCHEDULE: &str =
    "INSERT INTO punctual_schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
  VALUES (?1, ?2, '0 * * * *', ?3, ?2, ?4, ?4, ?4)";

const INSERT_STATE: &str =
    "INSERT INTO punctual_schedule_state (schedule_id, next_slot_at, next_run_at) VALUES (?1, ?2, ?2)";

impl Raw {
    /// A connection to a file that has the tables and no lane yet, as durable as the store's own.
    pub fn open(path: &Path) -> Outcome<Self> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute("INSERT INTO punctual_queues (name, created_at) VALUES ('default', 0)", [])?;
        connection.execute("INSERT INTO punctual_lanes (queue, job_type) VALUES ('default', 'task:noop')", [])?;
        let lane_id = connection.last_insert_rowid();
        let ids = IdSource::from_random(uuid::Uuid::new_v4().as_u64_pair().0);
        Ok(Self { connection, ids, position: 0, lane_id })
    }

    /// `journal_mode` and `synchronous` of this very connection, as the database reports them.
    pub fn durability(&self) -> Outcome<(String, i64)> {
        let mode = self.connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        Ok((mode, self.connection.pragma_query_value(None, "synchronous", |row| row.get(0))?))
    }

    /// One transaction for a batch.
    pub fn enqueue(&mut self, count: usize) -> Outcome<()> {
        let now = Timestamp::now();
        let now_us = now.as_microsecond();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut job = self.connection.prepare_cached(INSERT_JOB)?;
            let mut queued = self.connection.prepare_cached(INSERT_QUEUED)?;
            for _ in 0..count {
                let id = JobId::at(now, self.ids.next_bits());
                self.position += 1 << 20;
                let no_schedule = (None::<[u8; 16]>, None::<i64>);
                job.execute(params![id.as_bytes(), now_us, self.lane_id, TARGET, "api", no_schedule.0, no_schedule.1])?;
                queued.execute(params![id.as_bytes(), self.lane_id, self.position, now_us])?;
            }
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    /// Two transactions for a batch; says how many there were.
    pub fn claim_and_finish(&mut self, batch: usize) -> Outcome<usize> {
        let claimed = self.claim(batch)?;
        self.finish(&claimed)?;
        Ok(claimed.len())
    }

    /// Claims and finishes until nothing is left; the finish of each batch is in the transaction of the next claim.
    pub fn drain(&mut self, batch: usize) -> Outcome<usize> {
        let (mut ended, mut claimed) = (0, self.claim(batch)?);
        while !claimed.is_empty() {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            self.close(&claimed)?;
            ended += claimed.len();
            claimed = self.take(batch)?;
            self.connection.execute_batch("COMMIT")?;
        }
        Ok(ended)
    }

    /// Takes the first jobs of the queue, in one transaction.
    pub fn claim(&mut self, batch: usize) -> Outcome<Vec<Claimed>> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let claimed = self.take(batch)?;
        self.connection.execute_batch("COMMIT")?;
        Ok(claimed)
    }

    /// Closes them, in one transaction.
    pub fn finish(&mut self, claimed: &[Claimed]) -> Outcome<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        self.close(claimed)?;
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn close(&self, claimed: &[Claimed]) -> Outcome<()> {
        let now_us = Timestamp::now().as_microsecond();
        let mut take =
            self.connection.prepare_cached("DELETE FROM punctual_running WHERE job_id = ?1 AND lease_id = ?2")?;
        let mut run = self.connection.prepare_cached(INSERT_RUN)?;
        for id in claimed {
            take.execute(params![id, LEASE])?;
            run.execute(params![id, LEASE, now_us])?;
        }
        Ok(())
    }

    /// Out of the queue, into `running`, with the job's definition read as a node needs it.
    fn take(&self, batch: usize) -> Outcome<Vec<Claimed>> {
        let (now_us, batch) = (Timestamp::now().as_microsecond(), i64::try_from(batch)?);
        let mut read = self.connection.prepare_cached(READ_HEADS)?;
        let heads = read.query_map(params![self.lane_id, batch], |row| {
            let _definition: [String; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
            row.get(0)
        })?;
        let heads = heads.collect::<rusqlite::Result<Vec<Claimed>>>()?;
        self.connection.prepare_cached(START_HEADS)?.execute(params![self.lane_id, batch, LEASE, now_us])?;
        self.connection.prepare_cached(DROP_HEADS)?.execute(params![self.lane_id, batch])?;
        Ok(heads)
    }

    /// Schedules whose slot is this hour's, and so is due.
    pub fn make_due_schedules(&mut self, count: usize) -> Outcome<()> {
        let now = Timestamp::now();
        let slot_us = now.as_microsecond() / HOUR_US * HOUR_US;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        {
            let mut schedule = self.connection.prepare_cached(INSERT_SCHEDULE)?;
            let mut state = self.connection.prepare_cached(INSERT_STATE)?;
            for n in 0..count {
                let id = JobId::at(now, self.ids.next_bits());
                schedule.execute(params![id.as_bytes(), format!("s{n} {now}"), TARGET, slot_us - HOUR_US])?;
                state.execute(params![id.as_bytes(), slot_us])?;
            }
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    /// Lock, ledger row, job, queue, live list, new plan; the next slot is a sum, not a search.
    pub fn fire(&mut self, batch: usize) -> Outcome<usize> {
        let now = Timestamp::now();
        let now_us = now.as_microsecond();
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let due = self.due(now_us, batch)?;
        for (schedule, slot_at) in &due {
            let id = JobId::at(now, self.ids.next_bits());
            self.position += 1 << 20;
            let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| self.connection.prepare_cached(sql)?.execute(params);
            run(INSERT_SLOT, &[schedule, slot_at, id.as_bytes(), &now_us])?;
            run(INSERT_JOB, &[id.as_bytes(), &now_us, &self.lane_id, &TARGET, &"schedule", schedule, slot_at])?;
            run(INSERT_QUEUED, &[id.as_bytes(), &self.lane_id, &self.position, &now_us])?;
            run(
                "INSERT INTO punctual_schedule_live (schedule_id, job_id) VALUES (?1, ?2)",
                &[schedule, id.as_bytes()],
            )?;
            run(NEW_PLAN, &[schedule, &(slot_at + HOUR_US), slot_at, id.as_bytes(), &now_us])?;
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(due.len())
    }

    fn due(&self, now_us: i64, batch: usize) -> Outcome<Vec<([u8; 16], i64)>> {
        let mut due = self.connection.prepare_cached(DUE)?;
        let rows = due.query_map(params![now_us, i64::try_from(batch)?], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    }
}
