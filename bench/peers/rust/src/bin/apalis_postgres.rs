//! The contestant apalis with its PostgreSQL back end.

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage, queries};
use punctual_bench_peers::{Handle, Outcome, Peer, Request, keep_running};
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::ops::Range;
use std::process::ExitCode;

const QUEUE: &str = "noop";

struct Contestant {
    best: bool,
    pool: PgPool,
    storage: PostgresStorage<i64>,
}

impl Contestant {
    async fn open(request: Request) -> Outcome<Self> {
        let pool = PgPoolOptions::new().max_connections(request.callers().max(10)).connect(&request.url).await?;
        PostgresStorage::setup(&pool).await?;
        let config = Config::default().queue(QUEUE);
        let config = if request.best() { config.batch_size(1000) } else { config };
        let storage = PostgresStorage::new(&pool).with_config(config);
        Ok(Self { best: request.best(), pool, storage })
    }

    async fn count(&self, condition: &str) -> Outcome<u64> {
        let sql = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM apalis.jobs WHERE status {condition}"));
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
        let mut connection = self.pool.acquire().await?;
        queries::push_tasks(&mut *connection, QUEUE, tasks).await?;
        Ok(())
    }

    async fn work(&self, handle: Handle) -> Outcome<()> {
        let noop = move |number: i64| {
            handle(number);
            async {}
        };
        let worker = WorkerBuilder::new("contestant");
        if self.best {
            let worker = worker.backend(self.storage.clone().with_pubsub()).build(noop);
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
        let on: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&self.pool).await?;
        Ok(json!({"synchronous_commit": on}))
    }
}

fn main() -> ExitCode {
    let about = json!({
        "name": "apalis-postgres",
        "version": punctual_bench_peers::version_of("apalis-postgres"),
        "language": "Rust",
        "stores": ["postgres"],
        "keeps": "yes",
        "default": "batches of 10",
        "best": "batches of 1000, woken by NOTIFY",
        "scenarios": ["drain", "enqueue", "latency", "sustained"],
        "jobs_default": 10_000,
        "jobs_best": 120_000,
    });
    punctual_bench_peers::main(about, Contestant::open)
}
