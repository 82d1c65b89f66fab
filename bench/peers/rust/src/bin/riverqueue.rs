//! The contestant riverqueue, on PostgreSQL and on SQLite.

use punctual_bench_peers::{Handle, Outcome, Peer, Request, keep_running};
use riverqueue::migrate::{PostgresMigrator, SqliteMigrator};
use riverqueue::sqlx::postgres::{PgPool, PgPoolOptions};
use riverqueue::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use riverqueue::sqlx::{AssertSqlSafe, query_scalar};
use riverqueue::{
    BoxError, Client, ClientBuilder, CronSchedule, CronTimeZone, Job, JobArgs, PeriodicJob, PeriodicJobOpts,
    QueueConfig, WorkContext, WorkOutcome, Workers,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ops::Range;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "noop")]
struct Noop {
    n: i64,
}

enum Database {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

struct Contestant {
    database: Database,
    client: Client,
    handle: Arc<OnceLock<Handle>>,
}

impl Contestant {
    async fn open(request: Request) -> Outcome<Self> {
        let connections = if request.best() { 20 } else { 10 }.max(request.callers());
        let (database, builder) = if request.url.starts_with("sqlite:") {
            let pool = sqlite(&request.url).await?;
            SqliteMigrator::new(pool.clone()).migrate_up().await?;
            (Database::Sqlite(pool.clone()), Client::builder(pool))
        } else {
            let pool = PgPoolOptions::new().max_connections(connections).connect(&request.url).await?;
            PostgresMigrator::new(pool.clone()).migrate_up().await?;
            (Database::Postgres(pool.clone()), Client::builder(pool))
        };
        let handle = Arc::new(OnceLock::new());
        let client = configured(builder, &request).workers(workers(&handle)?).build()?;
        Ok(Self { database, client, handle })
    }

    async fn count(&self, states: &str) -> Outcome<u64> {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM river_job WHERE state IN ({states})"));
        let jobs: i64 = match &self.database {
            Database::Postgres(pool) => query_scalar(sql).fetch_one(pool).await?,
            Database::Sqlite(pool) => query_scalar(sql).fetch_one(pool).await?,
        };
        Ok(jobs.unsigned_abs())
    }
}

async fn sqlite(url: &str) -> Outcome<SqlitePool> {
    let options = SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5));
    Ok(SqlitePoolOptions::new().max_connections(5).connect_with(options).await?)
}

fn configured(builder: ClientBuilder, request: &Request) -> ClientBuilder {
    if request.best() {
        let cooldown = Duration::from_millis(2);
        let queue = QueueConfig::new(2000).with_fetch_poll_interval(Duration::from_millis(20));
        builder.fetch_cooldown(cooldown).queue("default", queue)
    } else {
        builder.queue("default", QueueConfig::new(10))
    }
}

fn workers(handle: &Arc<OnceLock<Handle>>) -> Outcome<Workers> {
    let handle = Arc::clone(handle);
    let mut workers = Workers::new();
    workers.add_fn(move |_context: WorkContext, job: Job<Noop>| {
        if let Some(handle) = handle.get() {
            handle(job.args.n);
        }
        async { Ok::<_, BoxError>(WorkOutcome::Complete) }
    })?;
    Ok(workers)
}

impl Peer for Contestant {
    async fn enqueue_one(&self, n: i64) -> Outcome<()> {
        self.client.insert(Noop { n }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, numbers: Range<i64>) -> Outcome<()> {
        self.client.insert_many(numbers.map(|n| Noop { n })).await?;
        Ok(())
    }

    async fn work(&self, handle: Handle) -> Outcome<()> {
        self.handle.set(handle).map_err(|_| "the worker has a handler already")?;
        let mut run = self.client.start()?;
        keep_running(async move { run.wait().await });
        Ok(())
    }

    async fn work_on_schedules(&self, schedules: i64, slot: SystemTime, handle: Handle) -> Outcome<()> {
        let minutes = slot.duration_since(UNIX_EPOCH)?.as_secs() / 60 % (24 * 60);
        let cron = format!("{} {} * * *", minutes % 60, minutes / 60);
        for n in 0..schedules {
            let schedule = CronSchedule::parse(&cron)?.with_time_zone(CronTimeZone::Utc);
            let opts = PeriodicJobOpts::new().with_id(format!("schedule-{n}"));
            self.client.periodic_jobs().add(PeriodicJob::with_options(schedule, move || Noop { n }, opts))?;
        }
        self.work(handle).await
    }

    async fn left(&self) -> Outcome<u64> {
        self.count("'available', 'pending', 'retryable', 'running', 'scheduled'").await
    }

    async fn kept(&self) -> Outcome<u64> {
        self.count("'completed'").await
    }

    async fn durability(&self) -> Outcome<Value> {
        match &self.database {
            Database::Postgres(pool) => {
                let on: String = query_scalar("SHOW synchronous_commit").fetch_one(pool).await?;
                Ok(json!({"synchronous_commit": on}))
            }
            Database::Sqlite(pool) => {
                let journal_mode: String = query_scalar("PRAGMA journal_mode").fetch_one(pool).await?;
                let synchronous: i64 = query_scalar("PRAGMA synchronous").fetch_one(pool).await?;
                Ok(json!({"journal_mode": journal_mode, "synchronous": synchronous}))
            }
        }
    }
}

fn main() -> ExitCode {
    let about = json!({
        "name": "riverqueue",
        "version": punctual_bench_peers::version_of("riverqueue"),
        "language": "Rust",
        "stores": ["postgres", "sqlite"],
        "keeps": "for a while",
        "default": "10 jobs at once, at least 100 ms between fetches (SQLite: WAL, synchronous FULL)",
        "best": "2000 jobs at once, at least 2 ms between fetches, polls every 20 ms (SQLite: WAL, synchronous FULL)",
        "scenarios": ["drain", "enqueue", "latency", "sustained", "slots"],
        "jobs_default": 300,
        "jobs_best": 140_000,
        "jobs_default_sqlite": 300,
        "jobs_best_sqlite": 40_000,
        "window_default": 200,
    });
    punctual_bench_peers::main(about, Contestant::open)
}
