//! The contestant apalis with its SQLite back end.

use apalis::prelude::*;
use apalis_sqlite::{Config, SqliteStorage, queries};
use punctual_bench_peers::{Handle, Outcome, Peer, Request, keep_running};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::ops::Range;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const QUEUE: &str = "noop";

struct Contestant {
    best: bool,
    pool: SqlitePool,
    storage: SqliteStorage<i64>,
}

impl Contestant {
    async fn open(request: Request) -> Outcome<Self> {
        let options = SqliteConnectOptions::from_str(&request.url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        // The set-up turns durability off on its own connection, so that this one must not be used for anything else.
        let setup = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        SqliteStorage::setup(&setup).await?;
        setup.close().await;
        let pool = SqlitePoolOptions::new().max_connections(10).connect_with(options).await?;
        let config = Config::default().queue(QUEUE);
        let config = if request.best() { config.batch_size(1000) } else { config };
        let storage = SqliteStorage::new(&pool).with_config(config);
        Ok(Self { best: request.best(), pool, storage })
    }

    async fn count(&self, condition: &str) -> Outcome<u64> {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM Jobs WHERE status {condition}"));
        let jobs: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        Ok(jobs.unsigned_abs())
    }
}

impl Peer for Contestant {
    async fn enqueue_one(&self, number: i64) -> Outcome<()> {
        self.storage.clone().push(number).await?;
        Ok(())
    }

    async fn enqueue_many(&self, numbers: Range<i64>) -> Outcome<()> {
        let tasks = numbers.map(|number| Ok(TaskBuilder::new(serde_json::to_vec(&number)?).build()));
        let tasks = tasks.collect::<Outcome<Vec<_>>>()?;
        let mut transaction = self.pool.begin().await?;
        queries::push_tasks(&mut *transaction, QUEUE, &tasks).await?;
        transaction.commit().await?;
        Ok(())
    }

    async fn work(&self, handle: Handle) -> Outcome<()> {
        let noop = move |number: i64| {
            handle(number);
            async {}
        };
        let worker = WorkerBuilder::new("contestant");
        if self.best {
            let backend = self.storage.clone().poll_with_interval(Duration::from_millis(5));
            let worker = worker.backend(backend).build(noop);
            keep_running(worker.run());
        } else {
            let worker = worker.backend(self.storage.clone()).build(noop);
            keep_running(worker.run());
        }
        Ok(())
    }

    async fn left(&self) -> Outcome<u64> {
        self.count("NOT IN ('Done', 'Failed', 'Killed')").await
    }

    async fn kept(&self) -> Outcome<u64> {
        self.count("= 'Done'").await
    }

    async fn durability(&self) -> Outcome<Value> {
        let journal_mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&self.pool).await?;
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&self.pool).await?;
        Ok(json!({"journal_mode": journal_mode, "synchronous": synchronous}))
    }
}

fn main() -> ExitCode {
    let about = json!({
        "name": "apalis-sqlite",
        "version": punctual_bench_peers::version_of("apalis-sqlite"),
        "language": "Rust",
        "stores": ["sqlite"],
        "keeps": "yes",
        "default": "batches of 10, WAL, synchronous FULL",
        "best": "batches of 1000, polls every 5 ms, WAL, synchronous FULL",
        "scenarios": ["drain", "enqueue", "latency", "sustained"],
        "jobs_default": 2_000,
        "jobs_best": 3_000,
    });
    punctual_bench_peers::main(about, Contestant::open)
}
