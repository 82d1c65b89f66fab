//! How late fires are on an idle system, and how long a job waits from the call that makes it to its start.
//!
//! A whole node with its usual options, on a durable store. Beside each figure stands what the store alone takes to
//! write one job in the same run, because a disk that is slow is slow for both.

use crate::figures::percentile;
use crate::load::Outcome;
use crate::report::{self, Cell, Goal, Plot, Sheet, Strip, Strips, Survey, Table, Tone};
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

/// A store, and from where its jobs come.
type Place = (&'static str, &'static str);

/// A node that works until it is aborted.
type Node = tokio::task::JoinHandle<StoreResult<()>>;

const TO_START: &str = "enqueue to start";
const SLOT_TO_START: &str = "slot to start";

/// What was waited for, in milliseconds.
struct Waits {
    /// The store.
    on: &'static str,
    /// From where the job or the schedule was made.
    from: &'static str,
    what: &'static str,
    milliseconds: Vec<f64>,
}

/// Measures the section `lateness`.
pub fn run() -> Outcome<()> {
    let mut survey = Survey::begin()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let folder = tempfile::tempdir()?;
        let open = || SqliteStore::open(&folder.path().join("late.db"), SqliteOptions::default());
        let (one, other) = (Arc::new(open()?), Arc::new(open()?));
        survey.sqlite(&one).await?;
        let mut all = measure(("SQLite", "the same process"), one.clone(), one).await?;
        all.extend(measure(("SQLite", "another process"), Arc::new(open()?), other).await?);
        let server = PrivateServer::start(true);
        let database = Database::empty_on(&server).await;
        let (url, options) = (database.url(), PostgresOptions::default());
        let one = PostgresStore::connect(&url, options.clone()).await?;
        let other = PostgresStore::connect(&url, options).await?;
        survey.postgres(&server, &database.connect().await).await?;
        all.extend(measure(("PostgreSQL", "another process"), Arc::new(one), Arc::new(other)).await?);
        let one = PostgresStore::connect(&url, PostgresOptions::default()).await?;
        all.extend(by_sql(Arc::new(one), &database).await?);
        report::keep(sheet(&all), survey)
    })
}

fn sheet(all: &[Waits]) -> Sheet {
    let mut sheet = Sheet::new("lateness", "Lateness", "lateness");
    sheet.say(format!(
        "A whole node with its usual options on a durable store that has nothing else to do: {ENQUEUES} jobs with pauses, \
         and {FIRES} fires of {SCHEDULES} schedules."
    ));
    let mut table = Table::new("", ["store", "from", "milliseconds", "p50", "p99", "max"]);
    let mut rows = Vec::new();
    for Waits { on, from, what, milliseconds } in all {
        let at = |percent| percentile(milliseconds, percent);
        let words = [*on, *from, *what].map(Cell::words);
        table.row(words.into_iter().chain([50, 99, 100].map(|percent| Cell::number(at(percent), 2))));
        rows.push(Strip::new(format!("{on}, {from}: {what}"), Tone::Ours, (at(50), at(99)), None));
        // The goals are about a node that is notified, which only PostgreSQL does between processes.
        if *from == (if *on == "SQLite" { "the same process" } else { "another process" }) {
            match *what {
                TO_START => sheet.answer(Goal::EnqueueToStart, on, at(50)),
                SLOT_TO_START => sheet.answer(Goal::SlotToStart, on, at(99)),
                _ => {}
            }
        }
    }
    "SQLite has no notification between processes: a node looks at the file's version ten times a second."
        .clone_into(&mut table.note);
    sheet.tables.push(table);
    let (title, unit) = ("How late".to_owned(), "ms".to_owned());
    sheet.plots.push(Plot::Strips(Strips { title, unit, digits: 2, rows, marks: Vec::new() }));
    sheet
}

/// The same for a job that SQL makes in a transaction of its own, as any language can.
async fn by_sql(works: Arc<dyn Store>, database: &Database) -> Outcome<Vec<Waits>> {
    let (node, mut starts) = working(works).await?;
    let client = database.connect().await;
    let make = async || {
        client.batch_execute("BEGIN; SELECT punctual.add_job('tick', '{\"n\": 1}'); COMMIT").await?;
        Ok(())
    };
    let waits = jobs(("PostgreSQL", "SQL, `add_job` in a transaction"), make, &mut starts).await?;
    node.abort();
    Ok(waits.into())
}

/// A node on one handle of a store; another handle is where jobs and schedules are made.
async fn measure(place: Place, works: Arc<dyn Store>, makes: Arc<dyn Store>) -> Outcome<Vec<Waits>> {
    let (node, mut starts) = working(works).await?;
    let make = async || {
        makes.enqueue_jobs(vec![NewJob::new(Target::task("tick"))]).await?;
        Ok(())
    };
    let of_jobs = jobs(place, make, &mut starts).await?;
    let of_fires = fires(place, &*makes, &mut starts).await?;
    node.abort();
    Ok(of_jobs.into_iter().chain(of_fires).collect())
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
async fn jobs(
    place: Place, mut make: impl AsyncFnMut() -> Outcome<()>, starts: &mut UnboundedReceiver<Start>,
) -> Outcome<[Waits; 2]> {
    let (mut waits, mut writes) = (Vec::new(), Vec::new());
    for n in 0..ENQUEUES {
        tokio::time::sleep(Duration::from_millis(30 + 53 * n % 140)).await;
        let asked = Timestamp::now();
        make().await?;
        writes.push(Timestamp::now().duration_since(asked));
        let (started, _) = starts.recv().await.ok_or("the node ended")?;
        waits.push(started.duration_since(asked));
    }
    Ok([waited(place, TO_START, &waits), waited(place, "of that, the enqueue itself", &writes)])
}

/// From a slot to the start of its job.
async fn fires(place: Place, store: &dyn Store, starts: &mut UnboundedReceiver<Start>) -> Outcome<[Waits; 2]> {
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
    Ok([waited(place, "slot to decision", &decided), waited(place, SLOT_TO_START, &waits)])
}

fn waited((on, from): Place, what: &'static str, times: &[SignedDuration]) -> Waits {
    Waits { on, from, what, milliseconds: times.iter().map(|time| time.as_secs_f64() * 1000.0).collect() }
}
