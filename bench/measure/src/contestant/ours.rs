//! Punctual as a contestant: a program that embeds it, with the usual options or with the best ones.

use super::{
    FIRST_PROBES, Pace, Request, Settings, WARM_UP, account, batches, check_durable, milliseconds, pause, watch_depth,
};
use crate::Outcome;
use crate::node::{Beats, Noop};
use jiff::{SignedDuration, Timestamp};
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::Store;
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use punctual_engine::dispatch::DeskOptions;
use punctual_engine::node::NodeOptions;
use punctual_store_postgres::{PostgresOptions, PostgresStore, connect_client};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Copies the one schedule there is, under other names: as many as are wanted cannot be made by one call each within a
/// minute.
const COPY_SCHEDULE: &str = "WITH copies AS (
    INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at)
    SELECT gen_random_uuid(), s.name || ' ' || n, s.cron, s.target, s.seed || n, s.anchor_at, s.created_at, s.updated_at
    FROM punctual_internal.schedules AS s, generate_series(2, $1::bigint) AS n RETURNING id)
  INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
  SELECT copies.id, t.next_slot_at, t.next_run_at FROM copies, punctual_internal.schedule_state AS t";

pub(super) async fn run(request: &Request) -> Outcome<Value> {
    match request.scenario.as_str() {
        "about" => Ok(about()),
        "drain" => drain(request).await,
        "enqueue" => enqueue(request).await,
        "latency" => latency(request).await,
        "sustained" => sustained(request).await,
        "slots" => slots(request).await,
        other => Err(format!("there is no scenario `{other}`").into()),
    }
}

fn about() -> Value {
    json!({ "name": "Punctual", "version": env!("CARGO_PKG_VERSION"), "language": "Rust", "stores": ["postgres", "sqlite"],
            "keeps": "yes", "default": "as it comes", "best": "64 jobs at once, at least 500 claimed ahead",
            "scenarios": ["drain", "enqueue", "latency", "sustained", "slots"],
            "jobs_default": 800_000, "jobs_best": 800_000, "jobs_default_sqlite": 200_000, "jobs_best_sqlite": 200_000 })
}

async fn open(request: &Request) -> Outcome<Arc<dyn Store>> {
    Ok(if request.is_sqlite() {
        let store = SqliteStore::from_url(&request.url, SqliteOptions::default())?;
        let durability = store.durability().await?;
        check_durable(&durability.journal_mode, durability.synchronous)?;
        Arc::new(store)
    } else {
        Arc::new(PostgresStore::connect(&request.url, PostgresOptions::default()).await?)
    })
}

fn options(request: &Request) -> NodeOptions {
    let usual = NodeOptions::default();
    match request.settings {
        Settings::Default => usual,
        Settings::Best => {
            let desk = DeskOptions { room: 64, prefetch: 500, ..usual.desk.clone() };
            NodeOptions { desk, ..usual }
        }
    }
}

fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|_| NewJob::new(Target::task("noop"))).collect()
}

async fn enqueue_in_batches(store: &Arc<dyn Store>, count: usize, batch: usize) -> Outcome<()> {
    for some in batches(count, batch) {
        store.enqueue_jobs(jobs(some)).await?;
    }
    Ok(())
}

async fn drain(request: &Request) -> Outcome<Value> {
    let store = open(request).await?;
    let began = Instant::now();
    enqueue_in_batches(&store, request.jobs, request.batch()).await?;
    let seconds = began.elapsed().as_secs_f64();
    // As an idle node has it do; the reference has its statements prepared, too.
    store.warm_up().await?;
    request.ready(json!({ "enqueued": request.jobs, "enqueue_seconds": seconds })).await?;
    let began = Instant::now();
    let node = Noop::start(Arc::clone(&store), options(request));
    node.counted.reaches(request.jobs).await;
    node.settles(&*store).await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(account::count(&request.url).await?.drained(node.counted.now(), seconds))
}

async fn enqueue(request: &Request) -> Outcome<Value> {
    let store = open(request).await?;
    for _ in 0..WARM_UP {
        store.enqueue_jobs(jobs(1)).await?;
    }
    let before = account::count(&request.url).await?.jobs;
    request.ready(json!({})).await?;
    let began = Instant::now();
    if let Some(callers) = request.single_callers() {
        let one = move |_| {
            let store = Arc::clone(&store);
            async move { Ok(store.enqueue_jobs(jobs(1)).await.map(|_| ())?) }
        };
        by_many(callers, request.jobs, one).await?;
    } else {
        enqueue_in_batches(&store, request.jobs, request.batch()).await?;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(account::count(&request.url).await?.enqueued(before, request.jobs, seconds))
}

/// Many callers at once, each with one call after the other.
async fn by_many<F: Future<Output = Outcome<()>> + Send + 'static>(
    callers: usize, calls: usize, call: impl Fn(usize) -> F + Send + Sync + 'static,
) -> Outcome<()> {
    let call = Arc::new(call);
    let tasks: Vec<_> = (0..callers)
        .map(|first| {
            let call = Arc::clone(&call);
            tokio::spawn(async move {
                for n in (first..calls).step_by(callers) {
                    call(n).await?;
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn latency(request: &Request) -> Outcome<Value> {
    let store = open(request).await?;
    let mut node = Noop::start(Arc::clone(&store), options(request));
    node.is_ready().await?;
    let maker = if request.apart { open(request).await? } else { Arc::clone(&store) };
    for _ in 0..FIRST_PROBES {
        start_one(&maker, &mut node).await?;
    }
    request.ready(json!({})).await?;
    let over = Arc::new(AtomicBool::new(false));
    let background = tokio::spawn(produce_at(Arc::clone(&maker), request.background_per_second, Arc::clone(&over)));
    let mut waits = Vec::new();
    for probe in 0..request.probes {
        tokio::time::sleep(pause(probe)).await;
        waits.push(start_one(&maker, &mut node).await?);
    }
    over.store(true, Ordering::SeqCst);
    background.await??;
    let probes = i64::try_from(FIRST_PROBES + request.probes)?;
    let account = account::count(&request.url).await?;
    let produced = usize::try_from(account.jobs - probes)?;
    node.counted.reaches(produced).await;
    node.settles(&*store).await?;
    let account = account::count(&request.url).await?;
    Ok(json!({ "event": "done", "ms": waits, "left": account.left, "background_handled": account.runs - probes,
               "background_enqueued": produced }))
}

/// Milliseconds from before the call that enqueues a job to its start.
async fn start_one(maker: &Arc<dyn Store>, node: &mut Noop) -> Outcome<f64> {
    let asked = Instant::now();
    maker.enqueue_jobs(vec![NewJob::new(Target::task("probe"))]).await?;
    Ok(milliseconds(node.next_probe().await?.0.duration_since(asked)))
}

/// So many jobs a second until it is over.
async fn produce_at(store: Arc<dyn Store>, per_second: usize, over: Arc<AtomicBool>) -> Outcome<()> {
    let mut due = Pace::of(per_second);
    while per_second > 0 && !over.load(Ordering::SeqCst) {
        store.enqueue_jobs(jobs(due.next().await?)).await?;
    }
    Ok(())
}

async fn sustained(request: &Request) -> Outcome<Value> {
    let store = open(request).await?;
    let node = Noop::start(Arc::clone(&store), options(request));
    request.ready(json!({})).await?;
    let began = Instant::now();
    let depths = tokio::spawn(watch_depth(Arc::clone(&node.counted), request.time()));
    while began.elapsed() < request.time() {
        if !request.may_produce(&node.counted, began.elapsed()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        store.enqueue_jobs(jobs(request.batch())).await?;
        node.counted.made(request.batch());
    }
    let (in_time, seconds) = (node.counted.now(), began.elapsed().as_secs_f64());
    let produced = node.counted.made(0);
    node.counted.reaches(produced).await;
    node.settles(&*store).await?;
    let account = account::count(&request.url).await?;
    Ok(json!({ "event": "done", "handled_in_time": in_time, "produced": produced, "handled": node.counted.now(),
               "distinct": account.runs, "left": account.left, "kept": account.runs, "seconds": seconds, "depths": depths.await? }))
}

/// Many schedules that are due at the same minute.
async fn slots(request: &Request) -> Outcome<Value> {
    let store = open(request).await?;
    let options = options(request);
    let beats = Arc::new(Beats::each(options.heartbeat));
    let mut node = Noop::start(Arc::clone(&store), NodeOptions { meter: Arc::clone(&beats) as _, ..options });
    node.is_ready().await?;
    // They all begin with the minute after the next one if that is too near.
    let at = next_minute(SignedDuration::from_secs(15 + i64::try_from(request.schedules / 5000)?))?;
    let timing = TimingSpec::cron(format!("{} * * * *", at.as_second() / 60 % 60), "UTC");
    store.create_schedule(ScheduleDefinition::new(Name::new("slot")?, timing, Target::task("probe"))).await?;
    let client = connect_client(&request.url).await?.0;
    client.execute(COPY_SCHEDULE, &[&i64::try_from(request.schedules)?]).await?;
    request.ready(json!({ "due_in": at.duration_since(Timestamp::now()).as_secs_f64() })).await?;
    let mut waits = Vec::new();
    let give_up = tokio::time::sleep(
        Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default() + Duration::from_secs(120),
    );
    let mut give_up = std::pin::pin!(give_up);
    while waits.len() < request.schedules {
        tokio::select! {
            probe = node.next_probe() => waits.push(probe?.1.duration_since(at).as_secs_f64() * 1000.0),
            () = &mut give_up => break,
        }
    }
    node.settles(&*store).await?;
    let account = account::count(&request.url).await?;
    Ok(
        json!({ "event": "done", "missed": request.schedules - waits.len(), "ms": waits, "kept": account.runs, "left": account.left,
               "heartbeats_missed": beats.missed(), "leases_lost": node.counted.fenced() }),
    )
}

/// The next full minute that is not too near.
fn next_minute(at_least: SignedDuration) -> Outcome<Timestamp> {
    let from = Timestamp::now().checked_add(at_least)?.as_second();
    Ok(Timestamp::from_second((from / 60 + 1) * 60)?)
}
