//! How late fires are on an idle system, and how long a job waits from the call that makes it to its start.
//!
//! A whole node with its usual options, on a durable store. Beside each figure stands what the store alone takes to
//! write one job in the same run, because a disk that is slow is slow for both.

use crate::load::Outcome;
use jiff::{SignedDuration, Timestamp};
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{Store, StoreResult};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_engine::node::{self, NodeOptions, Signals};
use punctual_engine::targets::task::{Context, Handler, TaskError};
use punctual_engine::work::Executors;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const SCHEDULES: usize = 10;
const FIRES: usize = 400;
const ENQUEUES: u64 = 300;

/// A start: when, and for which slot if there is one.
type Start = (Timestamp, Option<Timestamp>);

/// A node that works until it is aborted.
type Node = tokio::task::JoinHandle<StoreResult<()>>;

/// Prints the figures of both stores.
pub fn run() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:<44} {:>9} {:>9} {:>9}   goal", "milliseconds", "p50", "p99", "most");
    runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let open = || SqliteStore::open(&folder.path().join("late.db"), SqliteOptions::default());
        let (one, other) = (Arc::new(open()?), Arc::new(open()?));
        measure("SQLite", one.clone(), one).await?;
        measure("SQLite, from another process", Arc::new(open()?), other).await?;
        let server = PrivateServer::start(true);
        let database = Database::empty_on(&server).await;
        let (url, options) = (database.url(), PostgresOptions::default());
        let one = PostgresStore::connect(&url, options.clone()).await?;
        let other = PostgresStore::connect(&url, options).await?;
        measure("PostgreSQL, from another process", Arc::new(one), Arc::new(other)).await?;
        by_sql(Arc::new(PostgresStore::connect(&url, PostgresOptions::default()).await?), &database).await
    })
}

/// The same for a job that SQL makes in a transaction of its own, as any language can.
async fn by_sql(works: Arc<dyn Store>, database: &Database) -> Outcome<()> {
    println!("PostgreSQL, by SQL");
    let (node, mut starts) = working(works).await?;
    let client = database.connect().await;
    let make = async || {
        client.batch_execute("BEGIN; SELECT punctual.add_job('tick', '{\"n\": 1}'); COMMIT").await?;
        Ok(())
    };
    jobs(make, &mut starts).await?;
    node.abort();
    Ok(())
}

/// A node on one handle of a store; another handle is where jobs and schedules are made.
async fn measure(title: &str, works: Arc<dyn Store>, makes: Arc<dyn Store>) -> Outcome<()> {
    println!("{title}");
    let (node, mut starts) = working(works).await?;
    let make = async || {
        makes.enqueue_jobs(vec![NewJob::new(Target::task("tick"))]).await?;
        Ok(())
    };
    jobs(make, &mut starts).await?;
    fires(&*makes, &mut starts).await?;
    node.abort();
    Ok(())
}

/// A node that has come to work, and what it starts.
async fn working(works: Arc<dyn Store>) -> Outcome<(Node, UnboundedReceiver<Start>)> {
    let (tell, starts) = unbounded_channel::<Start>();
    let handler = Handler::new(move |run: Context, _: serde_json::Value| {
        let _ended = tell.send((Timestamp::now(), run.job.slot_at));
        async { Ok::<_, TaskError>(()) }
    });
    let executors = Executors::default().with("task:tick", Arc::new(handler));
    let never = || Box::pin(std::future::pending::<()>());
    let signals = Signals { gently: never(), now: never() };
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let mut ready = Some(ready);
    let node = tokio::spawn(async move {
        let on_event = move |_| {
            let _told_already = ready.take().map(|ready| ready.send(()));
        };
        node::run_until(works, executors, NodeOptions::default(), signals, on_event).await
    });
    is_ready.await?;
    Ok((node, starts))
}

/// From the call that makes a job to its start, with pauses in which the node goes idle.
async fn jobs(mut make: impl AsyncFnMut() -> Outcome<()>, starts: &mut UnboundedReceiver<Start>) -> Outcome<()> {
    let (mut waits, mut writes) = (Vec::new(), Vec::new());
    for n in 0..ENQUEUES {
        tokio::time::sleep(Duration::from_millis(30 + 53 * n % 140)).await;
        let asked = Timestamp::now();
        make().await?;
        writes.push(Timestamp::now().duration_since(asked));
        let (started, _) = starts.recv().await.ok_or("the node ended")?;
        waits.push(started.duration_since(asked));
    }
    print("  from enqueue to start", waits, "p50 under 5");
    print("  of that, the enqueue itself", writes, "");
    Ok(())
}

/// From a slot to the start of its job.
async fn fires(store: &dyn Store, starts: &mut UnboundedReceiver<Start>) -> Outcome<()> {
    let mut made = Vec::new();
    for n in 0..SCHEDULES {
        let name = Name::new(format!("tick {n} {}", Timestamp::now()))?;
        let timing = TimingSpec::Every { period: SignedDuration::from_secs(1) };
        made.push(store.create_schedule(ScheduleDefinition::new(name, timing, Target::task("tick"))).await?.id);
        tokio::time::sleep(Duration::from_millis(97)).await;
    }
    let mut waits = Vec::new();
    while waits.len() < FIRES {
        let (started, slot) = starts.recv().await.ok_or("the node ended")?;
        waits.extend(slot.map(|slot| started.duration_since(slot)));
    }
    let mut decided = Vec::new();
    for id in made {
        store.pause_schedule(id, None, None).await?;
        let slots = store.slots(id, None, FIRES).await?;
        decided.extend(
            slots.iter().filter(|row| row.job_id.is_some()).map(|row| row.decided_at.duration_since(row.slot_at)),
        );
    }
    print("  from the slot to its decision", decided, "p99 under 20");
    print("  from the slot to the start of its job", waits, "p99 under 20");
    Ok(())
}

fn print(what: &str, mut times: Vec<SignedDuration>, goal: &str) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    println!("{what:<44} {:>9.2} {:>9.2} {:>9.2}   {goal}", at(50), at(99), at(100));
}
