//! What growth costs the PostgreSQL store: history, schedules, and a transaction that pins the oldest snapshot.
//!
//! An empty database and a full one on the same durable server take turns, batch by batch. The full one is filled by
//! `generate_series`, because making ten million runs one by one is not what is measured.

use crate::figures::{Figure, Report};
use crate::load::{self, BATCH, Outcome, SCHEDULES, per_second};
use punctual_core::store::{Lease, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Batches of claims on each side.
const TURNS: usize = 80;
/// Claims of one job, for their times.
const CLAIMS: usize = 400;
/// Rows that died and cannot be removed while a snapshot is pinned.
const DEAD: usize = 80_000;

/// Fills a database: `HISTORY` finished jobs and `SCHEDULES` schedules that are due tomorrow.
const FILL: [(&str, &str); 4] = [
    (
        "jobs",
        "INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, trigger)
         SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
                now(), 1, 0, '{\"kind\":\"task\",\"name\":\"noop\"}', '{}', '{}', 3600000000, 'api'
         FROM generate_series(1, $1::bigint) AS n",
    ),
    (
        "runs",
        "INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome)
         SELECT id, '00000000-0000-4000-8000-000000000000', now(), now(), true, 'completed'
         FROM punctual_internal.jobs WHERE id NOT IN (SELECT job_id FROM punctual_internal.queue) LIMIT $1::bigint",
    ),
    (
        "schedules",
        "INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
         SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'filler ' || n, '0 3 * * *',
                '{\"kind\":\"task\",\"name\":\"noop\"}', 'filler', now(), now(), now()
         FROM generate_series(1, $1::bigint) AS n",
    ),
    (
        "plans",
        "INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
         SELECT id, now() + interval '1 day', now() + interval '1 day' FROM punctual_internal.schedules LIMIT $1::bigint",
    ),
];

/// Prints the tables. `history` finished runs and `schedules` schedules fill the full database.
pub fn run(history: i64, schedules: i64) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        pinned(&server).await?;
        let sides = [Side::open(&server).await?, Side::open(&server).await?];
        sides[1].fill(history, schedules).await?;
        let title = "PostgreSQL with a long history and many schedules, against an empty database";
        let mut report = Report::new(title, ["empty", "full"], TURNS);
        println!("\n{history} finished runs, {schedules} schedules\n");
        for side in &sides {
            load::enqueue(&side.store, TURNS * BATCH).await?;
        }
        turns(&sides, TURNS, Figure::ClaimAndFinish, &mut report).await?;
        for side in &sides {
            side.make_due_schedules().await?;
        }
        turns(&sides, SCHEDULES / BATCH, Figure::Fire, &mut report).await?;
        report.print();
        Ok(())
    })
}

/// Batch by batch, so that whatever else the machine does meets both alike.
async fn turns(sides: &[Side; 2], turns: usize, figure: Figure, report: &mut Report) -> Outcome<()> {
    for turn in 0..turns {
        for at in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let started = Instant::now();
            let count = match figure {
                Figure::Fire => sides[at].store.fire_due(None, BATCH).await?.jobs.len(),
                _ => sides[at].claim_and_finish(BATCH).await?,
            };
            let rate = per_second(count, started);
            report.add(figure, if at == 0 { (None, Some(rate)) } else { (Some(rate), None) });
        }
    }
    Ok(())
}

/// A database with a store on it.
struct Side {
    database: Database,
    store: Arc<dyn Store>,
    client: Client,
    node: Lease,
}

impl Side {
    async fn open(server: &PrivateServer) -> Outcome<Self> {
        let database = Database::empty_on(server).await;
        let store: Arc<dyn Store> =
            Arc::new(PostgresStore::connect(&database.url(), PostgresOptions::default()).await?);
        // The first job makes the lane that the filler's jobs name.
        store.enqueue_jobs(vec![load::job()]).await?;
        let node = load::node(&store).await?;
        let client = database.connect().await;
        Ok(Self { database, store, client, node })
    }

    async fn fill(&self, history: i64, schedules: i64) -> Outcome<()> {
        for (what, sql) in FILL {
            let started = Instant::now();
            let count = if matches!(what, "jobs" | "runs") { history } else { schedules };
            let made = self.client.execute(sql, &[&count]).await?;
            eprintln!("filled: {made} {what} in {:.0} s", started.elapsed().as_secs_f64());
        }
        self.client.batch_execute("VACUUM (ANALYZE)").await?;
        Ok(())
    }

    async fn claim_and_finish(&self, limit: usize) -> Outcome<usize> {
        let claimed = load::claim(&self.store, self.node, limit).await?;
        load::finish(&self.store, self.node, &claimed).await?;
        Ok(claimed.len())
    }

    /// Schedules that are due, among those that are not.
    async fn make_due_schedules(&self) -> Outcome<()> {
        load::make_schedules(&self.store, "due ", SCHEDULES).await?;
        let back = "UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 hour'
                    WHERE name LIKE 'due %'";
        self.client.execute(back, &[]).await?;
        let due = "UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '1 hour',
                   next_run_at = next_run_at - interval '1 hour'
                   WHERE schedule_id IN (SELECT id FROM punctual_internal.schedules WHERE name LIKE 'due %')";
        self.client.execute(due, &[]).await?;
        Ok(())
    }

    /// Rows that come and go.
    async fn churn(&self) -> Outcome<()> {
        for _ in 0..DEAD / load::JOBS {
            load::enqueue(&self.store, load::JOBS).await?;
            load::drain(&self.store, self.node).await?;
        }
        Ok(())
    }
}

/// How much slower a claim gets while an old transaction keeps every dead row from being removed. A snapshot holds on
/// to the rows of its own database only, so that another one on the same server is the reference.
async fn pinned(server: &PrivateServer) -> Outcome<()> {
    let sides = [Side::open(server).await?, Side::open(server).await?];
    for side in &sides {
        load::drain(&side.store, side.node).await?;
    }
    let pin = sides[1].database.connect().await;
    pin.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual_internal.queue").await?;
    for side in &sides {
        side.churn().await?;
    }
    let during = claim_times(&sides).await?;
    pin.batch_execute("ROLLBACK").await?;
    for side in &sides {
        side.client.batch_execute("VACUUM").await?;
    }
    let after = claim_times(&sides).await?;
    println!(
        "A claim of one job while a snapshot pins {DEAD} dead rows, and after it; {CLAIMS} in alternating order\n"
    );
    println!("| milliseconds | free p50 | pinned p50 | free p99 | pinned p99 | ratio p99 |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (when, [free, held]) in [("while it is pinned", during), ("after it and a vacuum", after)] {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!(
            "| {when} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |",
            ms(free.0),
            ms(held.0),
            ms(free.1),
            ms(held.1),
            ms(held.1) / ms(free.1)
        );
    }
    Ok(())
}

/// The middle, and what one in a hundred exceeds, on both sides.
async fn claim_times(sides: &[Side; 2]) -> Outcome<[(Duration, Duration); 2]> {
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..CLAIMS {
        for at in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let side = &sides[at];
            side.store.enqueue_jobs(vec![load::job()]).await?;
            let started = Instant::now();
            let claimed = load::claim(&side.store, side.node, 1).await?;
            times[at].push(started.elapsed());
            load::finish(&side.store, side.node, &claimed).await?;
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() * 99 / 100])
    }))
}
