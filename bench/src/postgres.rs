//! The PostgreSQL store against hand-written SQL on the same tables, on a durable throw-away server, in the same run.
//!
//! The reference does the same row moves with as little else as possible: batched statements with `unnest`, prepared
//! once, one transaction for each batch, on one connection. What the store adds is the rules, the types and the answers.

use crate::figures::{Figure, Report};
use crate::load::{self, BATCH, JOBS, Outcome, SCHEDULES, SINGLES, TOTAL, per_second};
use punctual_core::id::{IdSource, JobId};
use punctual_core::store::Store;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::Instant;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

const ROUNDS: usize = 7;
/// Connections of the store's pool, and of the reference when it has many callers.
const CONNECTIONS: usize = 8;

/// Prints the table.
pub fn run() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    let mut report = Report::new("PostgreSQL store against raw SQL of the same layout, one connection", ROUNDS);
    runtime.block_on(async {
        for round in 0..ROUNDS {
            // The order alternates, so that a disk that slows down or a cache that warms up favours nobody.
            for side in if round % 2 == 0 { [false, true] } else { [true, false] } {
                measure(&server, side, &mut report).await?;
            }
        }
        Outcome::Ok(())
    })?;
    report.print();
    Ok(())
}

async fn measure(server: &PrivateServer, store_side: bool, report: &mut Report) -> Outcome<()> {
    let database = Database::empty_on(server).await;
    let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await?;
    let client = database.connect().await;
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        let value: String = client.query_one(&format!("SHOW {setting}"), &[]).await?.get(0);
        if value != "on" {
            return Err(format!("not durable: {setting} is {value}").into());
        }
    }
    // Both begin with all pages written, so that neither logs whole pages for the other.
    client.batch_execute("CHECKPOINT").await?;
    if store_side {
        ours(Arc::new(store), &client, report).await?;
    } else {
        let mut raw = Raw::open(database.connect().await).await?;
        raw_side(&database, &mut raw, report).await?;
    }
    check_all_accounted_for(&client).await
}

/// The load on the store.
async fn ours(store: Arc<dyn Store>, client: &Client, report: &mut Report) -> Outcome<()> {
    let age = || async {
        let back = "UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 hour'";
        client.execute(back, &[]).await?;
        let back = "UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '1 hour',
                    next_run_at = next_run_at - interval '1 hour'";
        client.execute(back, &[]).await?;
        Ok(())
    };
    let begun = wal(client).await?;
    load::enqueue_batches(&store, report).await?;
    report.add(Figure::WalOfEnqueue, Some((wal(client).await? - begun) / each(JOBS)), None);
    load::enqueue_singles(&store, report).await?;
    let begun = wal(client).await?;
    let node = load::drain_all(&store, report).await?;
    let logged = (wal(client).await? - begun) / each(JOBS + 2 * SINGLES);
    report.add(Figure::WalOfClaimAndFinish, Some(logged), None);
    load::fire_side(&store, age, report).await?;
    load::drain(&store, node).await?;
    Ok(())
}

/// How many bytes of log there are.
async fn wal(client: &Client) -> Outcome<f64> {
    let row = client.query_one("SELECT (pg_current_wal_insert_lsn() - '0/0')::float8", &[]).await?;
    Ok(row.get(0))
}

fn each(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// No figure counts unless every job of the run has ended, once.
async fn check_all_accounted_for(client: &Client) -> Outcome<()> {
    let sql = "SELECT (SELECT count(*) FROM punctual_internal.jobs), (SELECT count(*) FROM punctual_internal.runs),
                      (SELECT count(*) FROM punctual_internal.queue) + (SELECT count(*) FROM punctual_internal.running)";
    let row = client.query_one(sql, &[]).await?;
    let (jobs, runs, open): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let expected = i64::try_from(TOTAL)?;
    if (jobs, runs, open) != (expected, expected, 0) {
        return Err(format!("jobs {jobs}, runs {runs}, open {open}; expected {expected}").into());
    }
    Ok(())
}

/// The reference: the same moves, by hand.
struct Raw {
    client: Client,
    ids: IdSource,
    lane_id: i64,
    lease: Uuid,
    statements: Statements,
}

struct Statements {
    enqueue: Statement,
    claim: Statement,
    finish: Statement,
    due: Statement,
    fire: Statement,
}

async fn raw_side(database: &Database, raw: &mut Raw, report: &mut Report) -> Outcome<()> {
    let begun = wal(&raw.client).await?;
    let started = Instant::now();
    for _ in 0..JOBS / BATCH {
        raw.enqueue(BATCH).await?;
    }
    report.add(Figure::EnqueueBatched, None, Some(per_second(JOBS, started)));
    report.add(Figure::WalOfEnqueue, None, Some((wal(&raw.client).await? - begun) / each(JOBS)));
    let started = Instant::now();
    for _ in 0..SINGLES {
        raw.enqueue(1).await?;
    }
    report.add(Figure::EnqueueSingle, None, Some(per_second(SINGLES, started)));
    let many = enqueue_by_many(database, raw.lane_id).await?;
    report.add(Figure::EnqueueManyCallers, None, Some(many));
    let begun = wal(&raw.client).await?;
    let started = Instant::now();
    while raw.claim_and_finish().await? > 0 {}
    report.add(Figure::ClaimAndFinish, None, Some(per_second(JOBS + 2 * SINGLES, started)));
    let logged = (wal(&raw.client).await? - begun) / each(JOBS + 2 * SINGLES);
    report.add(Figure::WalOfClaimAndFinish, None, Some(logged));
    raw.make_due_schedules().await?;
    let started = Instant::now();
    while raw.fire().await? > 0 {}
    report.add(Figure::Fire, None, Some(per_second(SCHEDULES, started)));
    while raw.claim_and_finish().await? > 0 {}
    Ok(())
}

/// As many connections as the store has, each with one row after the other.
async fn enqueue_by_many(database: &Database, lane_id: i64) -> Outcome<f64> {
    let mut callers = Vec::new();
    for _ in 0..CONNECTIONS {
        callers.push(Raw::on_lane(database.connect().await, lane_id).await?);
    }
    let started = Instant::now();
    let tasks: Vec<_> = callers
        .into_iter()
        .map(|mut caller| {
            tokio::spawn(async move {
                for _ in 0..SINGLES / CONNECTIONS {
                    caller.enqueue(1).await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(per_second(SINGLES, started))
}

const TARGET: &str = r#"{"kind":"task","name":"noop"}"#;

const ENQUEUE: &str = "WITH made AS (
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger)
    SELECT id, now(), $2, 0, target::json, input::json, '{}', 3600000000, 'api'
    FROM unnest($1::uuid[], $3::text[], $4::text[]) AS j (id, target, input))
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at)
  SELECT id, $2, 0, true, nextval('punctual_internal.positions') * 1048576, now(), now() FROM unnest($1::uuid[]) AS id";

const CLAIM: &str = "WITH taken AS (
    DELETE FROM punctual_internal.queue WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM punctual_internal.queue WHERE lane_id = $1 AND ready
      ORDER BY priority DESC, position, created_at, job_id LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING job_id, lane_id, priority, position, created_at, queued_at),
  started AS (
    INSERT INTO punctual_internal.running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                           queued_at, started_at)
    SELECT job_id, $3, $3, $3, lane_id, priority, position, created_at, queued_at, now() FROM taken RETURNING job_id)
  SELECT s.job_id, j.target::text, j.input::text, j.retry::text
  FROM started AS s CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = s.job_id OFFSET 0) AS j";

const FINISH: &str = "WITH taken AS (
    DELETE FROM punctual_internal.running WHERE job_id = ANY ($1) AND lease_id = $2
    RETURNING job_id, node_id, started_at)
  INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome)
  SELECT job_id, node_id, started_at, now(), true, 'completed' FROM taken";

const DUE: &str = "SELECT t.schedule_id, t.next_slot_at, s.target::text, s.cron, s.timezone
  FROM punctual_internal.schedule_state AS t JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE t.enabled AND t.next_run_at IS NOT NULL AND t.next_run_at <= now()
  ORDER BY t.next_run_at, t.schedule_id LIMIT $1 FOR UPDATE OF t SKIP LOCKED";

const FIRE: &str = "WITH due AS (SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[]) AS d (schedule_id, slot_at, job_id)),
  slots AS (
    INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decided_at, late_ms, schedule_version, job_id,
                                         decision, reason)
    SELECT schedule_id, slot_at, slot_at, 1, now(), 0, 1, job_id, 'fired', 'on_time' FROM due ON CONFLICT DO NOTHING),
  jobs AS (
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger,
                                        schedule_id, slot_at)
    SELECT job_id, now(), $4, 0, '{\"kind\":\"task\",\"name\":\"noop\"}', '{}', '{}', 3600000000, 'schedule', schedule_id, slot_at
    FROM due),
  queued AS (
    INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, schedule_id)
    SELECT job_id, $4, 0, true, nextval('punctual_internal.positions') * 1048576, now(), now(), schedule_id FROM due),
  live AS (INSERT INTO punctual_internal.schedule_live SELECT schedule_id, job_id FROM due)
  UPDATE punctual_internal.schedule_state AS t SET next_slot_at = now() + interval '1 minute',
    next_run_at = now() + interval '1 minute', last_slot_at = due.slot_at, fired_through = due.slot_at,
    last_job_id = due.job_id, last_enqueued_at = now()
  FROM due WHERE t.schedule_id = due.schedule_id";

impl Raw {
    async fn open(client: Client) -> Outcome<Self> {
        client
            .execute("INSERT INTO punctual_internal.queues (name, created_at) VALUES ('default', now())", &[])
            .await?;
        let lane = "INSERT INTO punctual_internal.lanes (queue, job_type) VALUES ('default', 'task:noop') RETURNING id";
        let lane_id = client.query_one(lane, &[]).await?.get(0);
        Self::on_lane(client, lane_id).await
    }

    async fn on_lane(client: Client, lane_id: i64) -> Outcome<Self> {
        client.batch_execute("SET jit = off").await?;
        let statements = Statements {
            enqueue: client.prepare(ENQUEUE).await?,
            claim: client.prepare(CLAIM).await?,
            finish: client.prepare(FINISH).await?,
            due: client.prepare(DUE).await?,
            fire: client.prepare(FIRE).await?,
        };
        let ids = IdSource::from_random(Uuid::new_v4().as_u64_pair().0);
        Ok(Self { client, ids, lane_id, lease: Uuid::new_v4(), statements })
    }

    fn new_ids(&mut self, count: usize) -> Vec<Uuid> {
        let now = jiff::Timestamp::now();
        (0..count).map(|_| JobId::at(now, self.ids.next_bits()).0).collect()
    }

    async fn enqueue(&mut self, count: usize) -> Outcome<()> {
        let ids = self.new_ids(count);
        // Every job has a target and an input of its own, so they travel for every job here too.
        let (targets, inputs) = (vec![TARGET; count], vec!["{}"; count]);
        self.client.execute(&self.statements.enqueue, &[&ids, &self.lane_id, &targets, &inputs]).await?;
        Ok(())
    }

    async fn claim_and_finish(&mut self) -> Outcome<usize> {
        let limit = i64::try_from(BATCH)?;
        let rows = self.client.query(&self.statements.claim, &[&self.lane_id, &limit, &self.lease]).await?;
        let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        self.client.execute(&self.statements.finish, &[&ids, &self.lease]).await?;
        Ok(ids.len())
    }

    async fn make_due_schedules(&mut self) -> Outcome<()> {
        let count = i64::try_from(SCHEDULES)?;
        let make = "WITH made AS (
              INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
              SELECT gen_random_uuid(), 's' || n, '* * * * *', '{\"kind\":\"task\",\"name\":\"noop\"}', 's' || n,
                     now() - interval '2 minutes', now() - interval '2 minutes', now()
              FROM generate_series(1, $1::bigint) AS n RETURNING id)
            INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
            SELECT id, date_trunc('minute', now()), date_trunc('minute', now()) FROM made";
        self.client.execute(make, &[&count]).await?;
        Ok(())
    }

    /// Two round trips for a batch; the next slot is a sum, not a search.
    async fn fire(&mut self) -> Outcome<usize> {
        self.client.batch_execute("BEGIN").await?;
        let rows = self.client.query(&self.statements.due, &[&i64::try_from(BATCH)?]).await?;
        let schedules: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
        let slots: Vec<std::time::SystemTime> = rows.iter().map(|row| row.get(1)).collect();
        let ids = self.new_ids(rows.len());
        self.client.execute(&self.statements.fire, &[&schedules, &slots, &ids, &self.lane_id]).await?;
        self.client.batch_execute("COMMIT").await?;
        Ok(rows.len())
    }
}
