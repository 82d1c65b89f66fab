//! A queue that keeps nothing, by hand-written SQL: one table, whose rows are marked by a claim and deleted at the end.
//!
//! It says what a queue writes that has no record of what it did, no lanes and no definitions: the least that the log can
//! be compared with.

use super::{Request, batches};
use crate::Outcome;
use jiff::Timestamp;
use punctual_core::id::{IdSource, JobId};
use punctual_store_postgres::connect_client;
use serde_json::{Value, json};
use std::time::Instant;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

/// Connections that drain at the same time, as many as those of the other reference.
const CONNECTIONS: usize = 2;

const MAKE_TABLE: &str = "CREATE TABLE bare_queue (
    id uuid PRIMARY KEY, priority integer NOT NULL DEFAULT 0, run_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(), attempts integer NOT NULL DEFAULT 0, name text NOT NULL,
    input json NOT NULL, locked_at timestamptz, locked_by uuid);
  CREATE INDEX bare_queue_waiting ON bare_queue (priority DESC, run_at, id) WHERE locked_at IS NULL";

const ENQUEUE: &str = "INSERT INTO bare_queue (id, name, input) SELECT id, 'noop', '{}' FROM unnest($1::uuid[]) AS id";

const CLAIM: &str = "UPDATE bare_queue SET locked_at = now(), locked_by = $1, attempts = attempts + 1
  WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM bare_queue WHERE locked_at IS NULL AND run_at <= now()
    ORDER BY priority DESC, run_at, id LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING id, name, input::text";

const FINISH: &str = "DELETE FROM bare_queue WHERE id = ANY ($1) AND locked_by = $2";

pub(super) async fn run(request: &Request) -> Outcome<Value> {
    match request.scenario.as_str() {
        "about" => Ok(about()),
        "drain" => drain(request).await,
        other => Err(format!("there is no scenario `{other}`").into()),
    }
}

fn about() -> Value {
    json!({ "name": "keeps nothing", "version": env!("CARGO_PKG_VERSION"), "language": "Rust", "stores": ["postgres"],
            "keeps": "no", "default": "one table by hand-written SQL: marked, then deleted; two connections, batches of 1000",
            "best": "the same", "scenarios": ["drain"], "jobs_default": 800_000, "jobs_best": 800_000 })
}

async fn drain(request: &Request) -> Outcome<Value> {
    let (client, _told) = connect_client(&request.url).await?;
    client.batch_execute(MAKE_TABLE).await?;
    let mut ids = IdSource::from_random(Uuid::new_v4().as_u64_pair().0);
    let began = Instant::now();
    for some in batches(request.jobs, request.batch()) {
        let now = Timestamp::now();
        let ids: Vec<Uuid> = (0..some).map(|_| JobId::at(now, ids.next_bits()).0).collect();
        client.execute(ENQUEUE, &[&ids]).await?;
    }
    let mut workers = Vec::new();
    for _ in 0..CONNECTIONS {
        workers.push(Worker::open(connect_client(&request.url).await?.0).await?);
    }
    request.ready(json!({ "enqueued": request.jobs, "enqueue_seconds": began.elapsed().as_secs_f64() })).await?;
    let (began, batch) = (Instant::now(), i64::try_from(request.batch())?);
    let tasks: Vec<_> =
        workers.into_iter().map(|worker| tokio::spawn(async move { worker.drain(batch).await })).collect();
    let (mut handled, mut deleted) = (0, 0);
    for task in tasks {
        let done = task.await??;
        handled += done.0;
        deleted += done.1;
    }
    let seconds = began.elapsed().as_secs_f64();
    let left: i64 = client.query_one("SELECT count(*) FROM bare_queue", &[]).await?.get(0);
    // A row that was handed out twice is deleted once.
    Ok(json!({ "event": "done", "handled": handled, "distinct": deleted, "left": left, "kept": 0, "seconds": seconds }))
}

/// One connection that works.
struct Worker {
    client: Client,
    claim: Statement,
    finish: Statement,
    id: Uuid,
}

impl Worker {
    async fn open(client: Client) -> Outcome<Self> {
        let (claim, finish) = (client.prepare(CLAIM).await?, client.prepare(FINISH).await?);
        Ok(Self { client, claim, finish, id: Uuid::new_v4() })
    }

    /// Claims and deletes until nothing is left; says how many were claimed, and how many deleted.
    async fn drain(&self, batch: i64) -> Outcome<(usize, u64)> {
        let (mut handled, mut deleted, mut ids) = (0, 0, self.claim(batch).await?);
        while !ids.is_empty() {
            handled += ids.len();
            let (finished, next) = tokio::join!(self.finish(&ids), self.claim(batch));
            deleted += finished?;
            ids = next?;
        }
        Ok((handled, deleted))
    }

    async fn claim(&self, batch: i64) -> Outcome<Vec<Uuid>> {
        let rows = self.client.query(&self.claim, &[&self.id, &batch]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn finish(&self, ids: &[Uuid]) -> Outcome<u64> {
        Ok(self.client.execute(&self.finish, &[&ids, &self.id]).await?)
    }
}
