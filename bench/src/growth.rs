//! What growth costs the PostgreSQL store: history, schedules, and a transaction that pins the oldest snapshot.
//!
//! The same load is put on an empty database and on a full one, on the same durable server, in the same run. The full
//! one is filled by `generate_series`, because making ten million runs one by one is not what is measured.

use crate::load::{self, Outcome};
use punctual_core::store::Store;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const ROUNDS: usize = 3;

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

/// Prints the table. `history` finished runs and `schedules` schedules fill the full database.
pub fn run(history: i64, schedules: i64) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = PrivateServer::start(true);
    runtime.block_on(async {
        let empty = Side::open(&server).await?;
        let full = Side::open(&server).await?;
        full.fill(history, schedules).await?;
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            // Alternating, so that a machine that slows down favours nobody.
            for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let rate = [&empty, &full][side].load(round).await?;
                rates[side].push(rate);
            }
        }
        print_growth(history, schedules, &rates);
        pinned(&empty).await
    })
}

/// A database with a store on it.
struct Side {
    database: Database,
    store: Arc<dyn Store>,
    client: Client,
}

/// What one round of load measured, in units per second.
#[derive(Clone, Copy)]
struct Rates {
    claim_and_finish: f64,
    fire: f64,
}

impl Side {
    async fn open(server: &PrivateServer) -> Outcome<Self> {
        let database = Database::empty_on(server).await;
        let store = Arc::new(PostgresStore::connect(&database.url(), PostgresOptions::default()).await?);
        // The first job makes the lane that the filler's jobs name.
        store.enqueue_jobs(vec![load::job()]).await?;
        let client = database.connect().await;
        Ok(Self { database, store, client })
    }

    async fn fill(&self, history: i64, schedules: i64) -> Outcome<()> {
        for (what, sql) in FILL {
            let started = Instant::now();
            let count = if matches!(what, "jobs" | "runs") { history } else { schedules };
            let made = self.client.execute(sql, &[&count]).await?;
            println!("filled: {made} {what} in {:.0} s", started.elapsed().as_secs_f64());
        }
        self.client.batch_execute("VACUUM (ANALYZE)").await?;
        Ok(())
    }

    async fn load(&self, round: usize) -> Outcome<Rates> {
        let node = load::node(&self.store).await?;
        load::enqueue(&self.store, load::JOBS).await?;
        let started = Instant::now();
        let ended = load::drain(&self.store, node).await?;
        let claim_and_finish = load::per_second(ended, started);
        load::make_schedules(&self.store, &format!("round {round}, ")).await?;
        let back = "UPDATE punctual_internal.schedules SET created_at = created_at - interval '1 hour' WHERE name LIKE 'round%'";
        self.client.execute(back, &[]).await?;
        let due = "UPDATE punctual_internal.schedule_state SET next_slot_at = next_slot_at - interval '1 hour',
                   next_run_at = next_run_at - interval '1 hour'
                   WHERE schedule_id IN (SELECT id FROM punctual_internal.schedules WHERE name LIKE $1)";
        self.client.execute(due, &[&format!("round {round},%")]).await?;
        let started = Instant::now();
        let fired = load::fire_all(&self.store).await?;
        let fire = load::per_second(fired, started);
        load::drain(&self.store, node).await?;
        Ok(Rates { claim_and_finish, fire })
    }
}

fn print_growth(history: i64, schedules: i64, rates: &[Vec<Rates>; 2]) {
    let median = |side: usize, of: fn(&Rates) -> f64| {
        let mut values: Vec<f64> = rates[side].iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "PostgreSQL with {history} finished runs and {schedules} schedules against an empty database; medians of {ROUNDS}"
    );
    println!("{:<20} {:>12} {:>12} {:>7}", "", "empty/s", "full/s", "ratio");
    let print = |what: &str, of: fn(&Rates) -> f64| {
        let (empty, full) = (median(0, of), median(1, of));
        println!("{what:<20} {empty:>12.0} {full:>12.0} {:>7.2}", full / empty);
    };
    print("claim + finish", |rates| rates.claim_and_finish);
    print("fire", |rates| rates.fire);
}

/// How much slower a claim gets while an old transaction keeps every dead row from being removed.
async fn pinned(side: &Side) -> Outcome<()> {
    let node = load::node(&side.store).await?;
    let before = claim_times(side, node).await?;
    let pin = side.database.connect().await;
    pin.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM punctual_internal.queue").await?;
    // Rows that die and stay: four times the load of a round.
    for _ in 0..4 {
        load::enqueue(&side.store, load::JOBS).await?;
        load::drain(&side.store, node).await?;
    }
    let during = claim_times(side, node).await?;
    pin.batch_execute("ROLLBACK").await?;
    side.client.batch_execute("VACUUM").await?;
    let after = claim_times(side, node).await?;
    println!(
        "a claim of one job, p50 / p99: without a pinned snapshot {}, with one and {} dead rows {}, after it {}",
        told(before),
        4 * load::JOBS,
        told(during),
        told(after)
    );
    println!("ratio p99 pinned / before: {:.1}", during.1.as_secs_f64() / before.1.as_secs_f64());
    Ok(())
}

/// The middle, and what one in a hundred exceeds.
async fn claim_times(side: &Side, node: punctual_core::store::Lease) -> Outcome<(Duration, Duration)> {
    let mut times = Vec::new();
    for _ in 0..300 {
        side.store.enqueue_jobs(vec![load::job()]).await?;
        let started = Instant::now();
        let claimed = load::claim(&side.store, node, 1).await?;
        times.push(started.elapsed());
        load::finish(&side.store, node, &claimed).await?;
    }
    times.sort_unstable();
    Ok((times[times.len() / 2], times[times.len() * 99 / 100]))
}

fn told((p50, p99): (Duration, Duration)) -> String {
    format!("{:.2} / {:.2} ms", p50.as_secs_f64() * 1000.0, p99.as_secs_f64() * 1000.0)
}
