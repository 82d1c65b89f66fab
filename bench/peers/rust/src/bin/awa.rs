//! The contestant awa, on PostgreSQL.

use awa::model::insert;
use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage};
use punctual_bench_peers::{Handle, Outcome, Peer, Request};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx_08::postgres::{PgPool, PgPoolOptions};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

const QUEUE: &str = "default";

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
struct Noop {
    n: i64,
}

struct Contestant {
    best: bool,
    pool: PgPool,
    storage: QueueStorage,
    /// Counts what has ended, whether or not its record was pruned since.
    finished: String,
    enqueued: AtomicI64,
    working: AtomicBool,
}

impl Contestant {
    async fn open(request: Request) -> Outcome<Self> {
        let connections = if request.best() { 30 } else { 20 }.max(request.callers());
        let pool = PgPoolOptions::new().max_connections(connections).connect(&request.url).await?;
        awa::migrations::run(&pool).await?;
        let storage = QueueStorage::new(awa::QueueStorageConfig::default())?;
        // What the first worker on a fresh database does; without it, jobs that are there before go to the old tables.
        let switched: bool = sqlx_08::query_scalar("SELECT awa.storage_auto_finalize_if_fresh($1)")
            .bind(storage.schema())
            .fetch_one(&pool)
            .await?;
        if !switched {
            return Err("awa does not take this database for a fresh one: give an empty one".into());
        }
        let schema = storage.schema();
        let finished = [
            ("live_terminal_count", "queue_terminal_live_counts"),
            ("terminal_delta", "queue_terminal_count_deltas"),
            ("completed_count", "receipt_completion_batches"),
            ("pruned_completed_count", "queue_terminal_rollups"),
        ]
        .map(|(column, table)| format!("(SELECT coalesce(sum({column}), 0)::bigint FROM {schema}.{table})"))
        .join(" + ");
        let finished = format!("SELECT {finished}");
        let (enqueued, working) = (AtomicI64::new(0), AtomicBool::new(false));
        Ok(Self { best: request.best(), pool, storage, finished, enqueued, working })
    }

    fn queue(&self) -> QueueConfig {
        if !self.best {
            return QueueConfig::default();
        }
        QueueConfig {
            max_workers: 1024,
            poll_interval: Duration::from_millis(20),
            // Without a deadline awa keeps receipts of whole batches instead of rows.
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        }
    }
}

impl Peer for Contestant {
    async fn enqueue_one(&self, n: i64) -> Outcome<()> {
        awa::insert(&self.pool, &Noop { n }).await?;
        self.enqueued.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn enqueue_many(&self, numbers: Range<i64>) -> Outcome<()> {
        let jobs = numbers.map(|n| insert::params_with(&Noop { n }, InsertOpts::default()));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let enqueued = self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        self.enqueued.fetch_add(i64::try_from(enqueued)?, Ordering::Relaxed);
        Ok(())
    }

    async fn work(&self, handle: Handle) -> Outcome<()> {
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, self.queue())
            .register::<Noop, _, _>(move |job: Noop, _context| {
                handle(job.n);
                async { Ok(JobResult::Completed) }
            })
            .build()?;
        client.start().await?;
        self.working.store(true, Ordering::Relaxed);
        // It works as long as it lives, which is as long as the process.
        std::mem::forget(client);
        Ok(())
    }

    async fn left(&self) -> Outcome<u64> {
        if !self.working.load(Ordering::Relaxed) {
            return self.left_exactly().await;
        }
        // Its own exact count of what is running takes seconds behind a drain, so that it would be most of what is measured.
        let finished: i64 = sqlx_08::query_scalar(&self.finished).fetch_one(&self.pool).await?;
        Ok((self.enqueued.load(Ordering::Relaxed) - finished).unsigned_abs())
    }

    async fn left_exactly(&self) -> Outcome<u64> {
        let counts = self.storage.queue_counts(&self.pool, QUEUE).await?;
        Ok((counts.available + counts.running).unsigned_abs())
    }

    async fn kept(&self) -> Outcome<u64> {
        Ok(self.storage.queue_counts(&self.pool, QUEUE).await?.terminal.unsigned_abs())
    }

    async fn durability(&self) -> Outcome<Value> {
        let on: String = sqlx_08::query_scalar("SHOW synchronous_commit").fetch_one(&self.pool).await?;
        Ok(json!({"synchronous_commit": on}))
    }
}

fn main() -> ExitCode {
    let about = json!({
        "name": "awa",
        "version": punctual_bench_peers::version_of("awa"),
        "language": "Rust",
        "stores": ["postgres"],
        "keeps": "for a while",
        "default": "50 jobs at once, polls every 200 ms",
        "best": "1024 jobs at once, no deadline, polls every 20 ms",
        "scenarios": ["drain", "enqueue", "latency", "sustained"],
        "jobs_default": 10_000,
        "jobs_best": 60_000,
    });
    punctual_bench_peers::main(about, Contestant::open)
}
