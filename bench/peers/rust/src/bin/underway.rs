//! The contestant underway, on PostgreSQL.

use punctual_bench_peers::{Handle, Outcome, Peer, Request, keep_running};
use serde_json::{Value, json};
use sqlx_08::postgres::{PgPool, PgPoolOptions};
use sqlx_08::{Postgres, Transaction};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use underway::{Queue, Task, Worker, task};

#[derive(Clone, Default)]
struct Noop {
    handle: Arc<OnceLock<Handle>>,
}

impl Task for Noop {
    type Input = i64;
    type Output = ();

    async fn execute(&self, _transaction: Transaction<'_, Postgres>, number: i64) -> task::Result<()> {
        if let Some(handle) = self.handle.get() {
            handle(number);
        }
        Ok(())
    }
}

struct Contestant {
    workers: usize,
    pool: PgPool,
    queue: Arc<Queue<Noop>>,
    task: Noop,
}

impl Contestant {
    async fn open(request: Request) -> Outcome<Self> {
        let pool = PgPoolOptions::new().max_connections(request.callers().max(20)).connect(&request.url).await?;
        underway::run_migrations(&pool).await?;
        let queue = Queue::builder().name("noop").pool(pool.clone()).build().await?;
        Ok(Self { workers: workers(&request), pool, queue: Arc::new(queue), task: Noop::default() })
    }

    async fn count(&self, states: &str) -> Outcome<u64> {
        let sql = format!("SELECT count(*) FROM underway.task WHERE state IN ({states})");
        let jobs: i64 = sqlx_08::query_scalar(&sql).fetch_one(&self.pool).await?;
        Ok(jobs.unsigned_abs())
    }
}

fn workers(request: &Request) -> usize {
    match (request.best(), request.is_about_latency()) {
        (false, _) => 1,
        // Each is woken for every job, so that more of them drain faster and start one job later.
        (true, true) => 2,
        (true, false) => 8,
    }
}

impl Peer for Contestant {
    async fn enqueue_one(&self, number: i64) -> Outcome<()> {
        self.queue.enqueue(&self.pool, &self.task, &number).await?;
        Ok(())
    }

    async fn enqueue_many(&self, numbers: Range<i64>) -> Outcome<()> {
        let numbers: Vec<_> = numbers.collect();
        self.queue.enqueue_multi(&self.pool, &self.task, &numbers).await?;
        Ok(())
    }

    async fn work(&self, handle: Handle) -> Outcome<()> {
        self.task.handle.set(handle).map_err(|_| "the worker has a handler already")?;
        for _ in 0..self.workers {
            let worker = Worker::new(Arc::clone(&self.queue), self.task.clone());
            keep_running(async move { worker.run().await });
        }
        Ok(())
    }

    async fn left(&self) -> Outcome<u64> {
        self.count("'pending', 'in_progress'").await
    }

    async fn kept(&self) -> Outcome<u64> {
        self.count("'succeeded'").await
    }

    async fn durability(&self) -> Outcome<Value> {
        let on: String = sqlx_08::query_scalar("SHOW synchronous_commit").fetch_one(&self.pool).await?;
        Ok(json!({"synchronous_commit": on}))
    }
}

fn main() -> ExitCode {
    let about = json!({
        "name": "underway",
        "version": punctual_bench_peers::version_of("underway"),
        "language": "Rust",
        "stores": ["postgres"],
        "keeps": "yes",
        "default": "one worker, as many jobs at once as there are cores",
        "best": "eight workers, as many jobs at once each as there are cores (latency: two workers)",
        "scenarios": ["drain", "enqueue", "latency", "sustained"],
        "jobs_default": 500,
        "jobs_best": 2_000,
        "window_default": 400,
        "window_best": 400,
    });
    punctual_bench_peers::main(about, Contestant::open)
}
