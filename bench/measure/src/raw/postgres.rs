//! The reference for the PostgreSQL store: the same row moves on the same tables by hand-written SQL, prepared once.

use crate::Outcome;
use jiff::Timestamp;
use punctual_core::id::{IdSource, JobId};
use punctual_core::timing::TimingSpec;
use std::time::SystemTime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

/// A connection, and what the moves need.
pub struct Raw {
    client: Client,
    ids: IdSource,
    lane_id: i64,
    lease: Uuid,
    statements: Statements,
}

struct Statements {
    enqueue: Statement,
    enqueue_one: Statement,
    claim: Statement,
    finish: Statement,
    finish_scheduled: Statement,
    due: Statement,
    fire: Statement,
}

/// The plans that the store asks for, which are those that this layout is made for.
const SETTINGS: &str = "SET jit = off; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan;
  SET max_parallel_workers_per_gather = 0";

const TARGET: &str = r#"{"kind":"task","name":"noop"}"#;

const ENQUEUE: &str = "WITH made AS (
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger)
    SELECT id, now(), $2, 0, target::json, input::json, '{}', 3600000000, 'api'
    FROM unnest($1::uuid[], $3::text[], $4::text[]) AS j (id, target, input))
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at)
  SELECT id, $2, 0, true, nextval('punctual_internal.positions') * 1048576, now(), now() FROM unnest($1::uuid[]) AS id";

/// One job by itself: a list of one row would cost more than the row.
const ENQUEUE_ONE: &str = "WITH made AS (
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger)
    VALUES ($1, now(), $2, 0, $3::text::json, $4::text::json, '{}', 3600000000, 'api'))
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at)
  VALUES ($1, $2, 0, true, nextval('punctual_internal.positions') * 1048576, now(), now())";

const CLAIM: &str = "WITH taken AS (
    DELETE FROM punctual_internal.queue WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM punctual_internal.queue WHERE lane_id = $1 AND ready
      ORDER BY priority DESC, position, created_at, job_id LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING job_id, lane_id, priority, position, created_at, queued_at, schedule_id),
  started AS (
    INSERT INTO punctual_internal.running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                           queued_at, schedule_id, started_at)
    SELECT job_id, $3, $3, $3, lane_id, priority, position, created_at, queued_at, schedule_id, now() FROM taken
    RETURNING job_id)
  SELECT s.job_id, j.target::text, j.input::text, j.retry::text
  FROM started AS s CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = s.job_id OFFSET 0) AS j";

const FINISH: &str = "WITH taken AS (
    DELETE FROM punctual_internal.running WHERE job_id = ANY ($1) AND (lease_id = $2) IS TRUE
    RETURNING job_id, node_id, started_at)
  INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome)
  SELECT job_id, node_id, started_at, now(), true, 'completed' FROM taken";

/// The same where the jobs are of schedules: they are not alive any more, and the schedules' results are written down.
const FINISH_SCHEDULED: &str = "WITH taken AS (
    DELETE FROM punctual_internal.running WHERE job_id = ANY ($1) AND (lease_id = $2) IS TRUE
    RETURNING job_id, node_id, started_at, schedule_id),
  dead AS (
    DELETE FROM punctual_internal.schedule_live AS v USING taken
    WHERE v.schedule_id = taken.schedule_id AND v.job_id = taken.job_id),
  recorded AS (
    INSERT INTO punctual_internal.schedule_results (schedule_id, last_run_at, last_outcome, last_success_at)
    SELECT schedule_id, now(), 'completed', now() FROM taken
    ON CONFLICT (schedule_id) DO UPDATE SET last_run_at = excluded.last_run_at, last_outcome = excluded.last_outcome,
      last_success_at = excluded.last_success_at, consecutive_failures = 0)
  INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome)
  SELECT job_id, node_id, started_at, now(), true, 'completed' FROM taken";

const DUE: &str = "SELECT t.schedule_id, t.next_slot_at, s.target::text, s.cron, s.timezone
  FROM punctual_internal.schedule_state AS t JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE t.enabled AND t.next_run_at IS NOT NULL AND t.next_run_at <= now()
  ORDER BY t.next_run_at, t.schedule_id LIMIT $1 FOR UPDATE OF t SKIP LOCKED";

const FIRE: &str = "WITH due AS MATERIALIZED (
    SELECT d.*, s.target, s.input, s.priority, s.retry, s.timeout_us, s.cron, s.version
    FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $5::timestamptz[]) AS d (schedule_id, slot_at, job_id, next_at)
    CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = d.schedule_id OFFSET 0) AS s),
  slots AS (
    INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decided_at, late_ms, schedule_version, job_id,
                                         decision, reason)
    SELECT schedule_id, slot_at, slot_at, 1, now(), 0, version, job_id, 'fired', 'on_time' FROM due ON CONFLICT DO NOTHING),
  jobs AS (
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger,
                                        trigger_detail, schedule_id, slot_at)
    SELECT job_id, now(), $4, priority, target, input, retry, timeout_us, 'schedule', cron, schedule_id, slot_at
    FROM due),
  queued AS (
    INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, schedule_id)
    SELECT job_id, $4, 0, true, nextval('punctual_internal.positions') * 1048576, now(), now(), schedule_id FROM due),
  live AS (INSERT INTO punctual_internal.schedule_live SELECT schedule_id, job_id FROM due)
  UPDATE punctual_internal.schedule_state AS t SET next_slot_at = due.next_at, next_run_at = due.next_at, last_slot_at = due.slot_at, fired_through = due.slot_at,
    last_job_id = due.job_id, last_enqueued_at = now()
  FROM due WHERE t.schedule_id = due.schedule_id";

const MAKE_DUE: &str = r#"WITH made AS (
    INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
    SELECT gen_random_uuid(), 's' || n || now(), '0 * * * *', '{"kind":"task","name":"noop"}', 's' || n,
           now() - interval '2 hours', now() - interval '2 hours', now()
    FROM generate_series(1, COUNT) AS n RETURNING id)
  INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
  SELECT id, slot, slot FROM made,
         LATERAL (SELECT date_trunc('hour', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') AS this_hour (slot)"#;

impl Raw {
    /// A connection to a database that has no lane yet.
    pub async fn open(client: Client) -> Outcome<Self> {
        client
            .execute("INSERT INTO punctual_internal.queues (name, created_at) VALUES ('default', now())", &[])
            .await?;
        let lane = "INSERT INTO punctual_internal.lanes (queue, job_type) VALUES ('default', 'task:noop') RETURNING id";
        let lane_id = client.query_one(lane, &[]).await?.get(0);
        Self::on_lane(client, lane_id).await
    }

    /// One more connection for the same lane.
    pub async fn beside(&self, client: Client) -> Outcome<Self> {
        Self::on_lane(client, self.lane_id).await
    }

    async fn on_lane(client: Client, lane_id: i64) -> Outcome<Self> {
        client.batch_execute(SETTINGS).await?;
        let statements = Statements {
            enqueue: client.prepare(ENQUEUE).await?,
            enqueue_one: client.prepare(ENQUEUE_ONE).await?,
            claim: client.prepare(CLAIM).await?,
            finish: client.prepare(FINISH).await?,
            finish_scheduled: client.prepare(FINISH_SCHEDULED).await?,
            due: client.prepare(DUE).await?,
            fire: client.prepare(FIRE).await?,
        };
        let ids = IdSource::from_random(Uuid::new_v4().as_u64_pair().0);
        Ok(Self { client, ids, lane_id, lease: Uuid::new_v4(), statements })
    }

    /// A setting of this very session, as the server reports it.
    pub async fn shows(&self, setting: &str) -> Outcome<String> {
        Ok(self.client.query_one(&format!("SHOW {setting}"), &[]).await?.get(0))
    }

    fn new_ids(&mut self, count: usize) -> Vec<Uuid> {
        let now = Timestamp::now();
        (0..count).map(|_| JobId::at(now, self.ids.next_bits()).0).collect()
    }

    fn new_id(&mut self) -> Uuid {
        JobId::at(Timestamp::now(), self.ids.next_bits()).0
    }

    /// One statement for a batch.
    pub async fn enqueue(&mut self, count: usize) -> Outcome<()> {
        if count == 1 {
            let id = self.new_id();
            self.client.execute(&self.statements.enqueue_one, &[&id, &self.lane_id, &TARGET, &"{}"]).await?;
            return Ok(());
        }
        let ids = self.new_ids(count);
        // Every job has a target and an input of its own, so they travel for every job here too.
        let (targets, inputs) = (vec![TARGET; count], vec!["{}"; count]);
        self.client.execute(&self.statements.enqueue, &[&ids, &self.lane_id, &targets, &inputs]).await?;
        Ok(())
    }

    /// One job, and the word that there is one, in one transaction; says which job.
    pub async fn enqueue_and_tell(&mut self) -> Outcome<Uuid> {
        let id = self.new_id();
        let job: [&(dyn ToSql + Sync); 4] = [&id, &self.lane_id, &TARGET, &"{}"];
        let (begun, made, told, done) = tokio::join!(
            self.client.batch_execute("BEGIN"),
            self.client.execute(&self.statements.enqueue_one, &job),
            self.client.batch_execute("NOTIFY punctual_bench"),
            self.client.batch_execute("COMMIT"),
        );
        begun?;
        made?;
        told?;
        done?;
        Ok(id)
    }

    /// Two statements for a batch; says how many there were.
    pub async fn claim_and_finish(&mut self, batch: usize) -> Outcome<usize> {
        let ids = self.claim(batch).await?;
        self.finish(&ids).await?;
        Ok(ids.len())
    }

    /// Writes down that jobs of schedules are done.
    pub async fn finish_scheduled(&self, ids: &[Uuid]) -> Outcome<()> {
        if !ids.is_empty() {
            self.client.execute(&self.statements.finish_scheduled, &[&ids, &self.lease]).await?;
        }
        Ok(())
    }

    /// Claims and finishes until nothing is left; the finish of each batch travels together with the next claim.
    pub async fn drain(&mut self, batch: usize) -> Outcome<usize> {
        let (mut ended, mut ids) = (0, self.claim(batch).await?);
        while !ids.is_empty() {
            let (finished, next) = tokio::join!(self.finish(&ids), self.claim(batch));
            finished?;
            ended += ids.len();
            ids = next?;
        }
        Ok(ended)
    }

    /// Takes at most so many jobs.
    pub async fn claim(&self, batch: usize) -> Outcome<Vec<Uuid>> {
        let limit = i64::try_from(batch)?;
        let rows = self.client.query(&self.statements.claim, &[&self.lane_id, &limit, &self.lease]).await?;
        // What a worker cannot do without: what to run, with what, and how often.
        let jobs: Vec<[String; 3]> = rows.iter().map(|row| [row.get(1), row.get(2), row.get(3)]).collect();
        std::hint::black_box(jobs);
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Writes down that they are done.
    pub async fn finish(&self, ids: &[Uuid]) -> Outcome<()> {
        self.client.execute(&self.statements.finish, &[&ids, &self.lease]).await?;
        Ok(())
    }

    /// Schedules whose slot is this hour's, and so is due.
    pub async fn make_due_schedules(&mut self, count: usize) -> Outcome<()> {
        Self::make_due_schedules_on(&self.client, count).await
    }

    /// The same by any connection, and without a statement of a name.
    pub async fn make_due_schedules_on(client: &Client, count: usize) -> Outcome<()> {
        client.batch_execute(&MAKE_DUE.replace("COUNT", &count.to_string())).await?;
        Ok(())
    }

    /// Four round trips for a batch. The next slot is searched for by the same cron, because somebody must, and a job has
    /// what its schedule says.
    pub async fn fire(&mut self, batch: usize) -> Outcome<usize> {
        self.client.batch_execute("BEGIN").await?;
        let rows = self.client.query(&self.statements.due, &[&i64::try_from(batch)?]).await?;
        let schedules: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let slots: Vec<SystemTime> = rows.iter().map(|row| row.get(1)).collect();
        let nexts = rows.iter().map(next_slot).collect::<Outcome<Vec<SystemTime>>>()?;
        let ids = self.new_ids(rows.len());
        self.client.execute(&self.statements.fire, &[&schedules, &slots, &ids, &self.lane_id, &nexts]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(rows.len())
    }
}

/// When a schedule of `DUE` is due next.
fn next_slot(row: &Row) -> Outcome<SystemTime> {
    let slot = Timestamp::try_from(row.get::<_, SystemTime>(1))?;
    let timing = TimingSpec::cron(row.get::<_, &str>(3), row.get::<_, &str>(4)).compile(slot, "")?;
    Ok(timing.next_after(slot).ok_or("it has no next slot")?.into())
}
