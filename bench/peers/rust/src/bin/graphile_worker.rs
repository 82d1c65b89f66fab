//! The contestant graphile_worker, on PostgreSQL.

use graphile_worker::{
    Cron, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use punctual_bench_peers::{Handle, Outcome, Peer, Request, WINDOW, keep_running};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use std::fmt;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Without a local queue a worker that hears of a batch takes as many jobs as it runs at once, and leaves the rest until it
/// looks again, a second later. A batch is a quarter of this, and therefore no more than those 16.
const LATENCY_WINDOW: i64 = 64;

#[derive(Clone, Deserialize, Serialize)]
struct Noop {
    n: i64,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let handler = context.get_ext::<Handler>().ok_or("the worker has no handler")?;
        (handler.0)(self.n);
        Ok::<(), &'static str>(())
    }
}

#[derive(Clone)]
struct Handler(Handle);

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

struct Contestant {
    request: Request,
    pool: PgPool,
    utils: WorkerUtils,
}

impl Contestant {
    async fn open(request: Request) -> Outcome<Self> {
        let pool = PgPoolOptions::new().max_connections(request.callers().max(4)).connect(&request.url).await?;
        let utils = WorkerUtils::new(pool.clone(), "graphile_worker");
        utils.migrate().await?;
        Ok(Self { request, pool, utils })
    }

    fn options(&self, handle: Handle) -> WorkerOptions {
        let options = WorkerOptions::default()
            .database_url(&self.request.url)
            .define_job::<Noop>()
            .add_extension(Handler(handle));
        match (self.request.best(), self.request.is_about_latency()) {
            (false, _) => options,
            // A local queue and waiting for more completions buy throughput, and cost latency.
            (true, true) => options.concurrency(16),
            (true, false) => options
                .concurrency(64)
                .local_queue(LocalQueueConfig::default().with_size(4000).with_queue_count(2))
                .complete_job_batch_delay(Duration::from_millis(5)),
        }
    }
}

async fn start(options: WorkerOptions) -> Outcome<()> {
    let worker = options.init().await?;
    keep_running(async move { worker.run().await });
    Ok(())
}

impl Peer for Contestant {
    async fn enqueue_one(&self, n: i64) -> Outcome<()> {
        self.utils.add_job(Noop { n }, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, numbers: Range<i64>) -> Outcome<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = numbers.map(|n| (Noop { n }, &spec)).collect();
        self.utils.add_jobs(&jobs).await?;
        Ok(())
    }

    async fn work(&self, handle: Handle) -> Outcome<()> {
        if self.request.best() || self.request.scenario != "drain" {
            return start(self.options(handle)).await;
        }
        // Without a local queue, a running worker takes one job per core from a backlog each time that it polls, which is
        // every second. This is the documented way to handle what is there.
        let worker = self.options(handle).init().await?;
        Ok(worker.run_once().await?)
    }

    async fn work_on_schedules(&self, schedules: i64, slot: SystemTime, handle: Handle) -> Outcome<()> {
        let minutes = u32::try_from(slot.duration_since(UNIX_EPOCH)?.as_secs() / 60 % (24 * 60))?;
        let mut crons = Vec::new();
        for n in 0..schedules {
            let cron = Cron::daily_at::<Noop>(minutes / 60, minutes % 60)?;
            crons.push(cron.id(format!("schedule-{n}")).payload(Noop { n })?);
        }
        start(self.options(handle).with_crons(crons)).await
    }

    async fn left(&self) -> Outcome<u64> {
        let jobs: i64 =
            sqlx::query_scalar("SELECT count(*) FROM graphile_worker._private_jobs").fetch_one(&self.pool).await?;
        Ok(jobs.unsigned_abs())
    }

    /// A finished job's row is deleted: what is kept would be in the same table.
    async fn kept(&self) -> Outcome<u64> {
        self.left().await
    }

    fn window(&self) -> i64 {
        if self.request.best() && self.request.is_about_latency() { LATENCY_WINDOW } else { WINDOW }
    }

    async fn durability(&self) -> Outcome<Value> {
        let on: String = sqlx::query_scalar("SHOW synchronous_commit").fetch_one(&self.pool).await?;
        Ok(json!({"synchronous_commit": on}))
    }
}

fn main() -> ExitCode {
    let about = json!({
        "name": "graphile_worker",
        "version": punctual_bench_peers::version_of("graphile_worker"),
        "language": "Rust",
        "stores": ["postgres"],
        "keeps": "no",
        "default": "as many jobs at once as there are cores, one job per fetch; drained by run_once",
        "best": "64 jobs at once, two local queues of 4000, completions batched for 5 ms (latency: 16 jobs at once, neither)",
        "scenarios": ["drain", "enqueue", "latency", "sustained", "slots"],
        "jobs_default": 5_000,
        "jobs_best": 270_000,
        "window_default": 20,
    });
    punctual_bench_peers::main(about, Contestant::open)
}
