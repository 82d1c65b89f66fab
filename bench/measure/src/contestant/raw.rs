//! Hand-written SQL as a contestant: the limit of the database for the same row moves on the same tables.

use super::{FIRST_PROBES, Pace, Request, WARM_UP, account, batches, milliseconds, pause, watch_depth};
use crate::Outcome;
use crate::node::Counted;
use crate::raw::postgres::Raw;
use punctual_engine::dispatch::BATCH;
use punctual_store_postgres::{PostgresOptions, PostgresStore, connect_client};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use uuid::Uuid;

/// Connections that drain at the same time: one for each processor of a small machine.
const CONNECTIONS: usize = 2;

/// Who has found nothing looks again after this.
const LOOK: Duration = Duration::from_millis(1);

pub(super) async fn run(request: &Request) -> Outcome<Value> {
    match request.scenario.as_str() {
        "about" => Ok(about()),
        "drain" => drain(request, request.batch()).await,
        "enqueue" => enqueue(request).await,
        "latency" => latency(request).await,
        "sustained" => sustained(request).await,
        "slots" => slots(request).await,
        other => Err(format!("there is no scenario `{other}`").into()),
    }
}

/// The same in batches as large as Punctual's own become, which only matter where there is much to drain.
pub(super) async fn run_in_large_batches(request: &Request) -> Outcome<Value> {
    match request.scenario.as_str() {
        "about" => {
            let mut about = about();
            about["name"] = "raw SQL, large batches".into();
            about["default"] = format!("two connections, batches of {BATCH}").into();
            about["stores"] = json!(["postgres"]);
            about["scenarios"] = json!(["drain"]);
            Ok(about)
        }
        "drain" => drain(request, BATCH).await,
        other => Err(format!("there is no scenario `{other}`").into()),
    }
}

fn about() -> Value {
    json!({ "name": "raw SQL", "version": env!("CARGO_PKG_VERSION"), "language": "Rust", "stores": ["postgres", "sqlite"],
            "keeps": "yes", "default": "two connections, batches of 1000; but for `sustained`, claims travel with the last finish",
            "best": "the same", "scenarios": ["drain", "enqueue", "latency", "sustained", "slots"],
            "jobs_default": 800_000, "jobs_best": 800_000, "jobs_default_sqlite": 200_000, "jobs_best_sqlite": 200_000 })
}

/// Connections to a database whose tables were made by the store.
async fn open(request: &Request, connections: usize) -> Outcome<Vec<Raw>> {
    PostgresStore::connect(&request.url, PostgresOptions::default()).await?;
    let mut all = vec![Raw::open(connect_client(&request.url).await?.0).await?];
    while all.len() < connections {
        let another = all[0].beside(connect_client(&request.url).await?.0).await?;
        all.push(another);
    }
    Ok(all)
}

async fn fill(raw: &mut Raw, jobs: usize, batch: usize) -> Outcome<()> {
    for some in batches(jobs, batch) {
        raw.enqueue(some).await?;
    }
    Ok(())
}

/// Claims and finishes in batches of so many.
async fn drain(request: &Request, batch: usize) -> Outcome<Value> {
    let mut raws = open(request, CONNECTIONS).await?;
    let began = Instant::now();
    fill(&mut raws[0], request.jobs, request.batch()).await?;
    request.ready(json!({ "enqueued": request.jobs, "enqueue_seconds": began.elapsed().as_secs_f64() })).await?;
    let began = Instant::now();
    let mut handled = 0;
    let tasks: Vec<_> = raws.into_iter().map(|mut raw| tokio::spawn(async move { raw.drain(batch).await })).collect();
    for task in tasks {
        handled += task.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(account::count(&request.url).await?.drained(handled, seconds))
}

async fn enqueue(request: &Request) -> Outcome<Value> {
    let mut raws = open(request, request.single_callers().unwrap_or(1)).await?;
    for raw in &mut raws {
        fill(raw, WARM_UP, 1).await?;
    }
    let before = account::count(&request.url).await?.jobs;
    request.ready(json!({})).await?;
    let began = Instant::now();
    let (share, batch) =
        (request.jobs / raws.len(), if request.single_callers().is_some() { 1 } else { request.batch() });
    let enqueued = share * raws.len();
    let tasks: Vec<_> =
        raws.into_iter().map(|mut raw| tokio::spawn(async move { fill(&mut raw, share, batch).await })).collect();
    for task in tasks {
        task.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(account::count(&request.url).await?.enqueued(before, enqueued, seconds))
}

/// One connection writes and tells, another one waits and claims; beside other jobs, whoever comes to it claims.
async fn latency(request: &Request) -> Outcome<Value> {
    if request.background_per_second > 0 {
        return latency_beside_others(request).await;
    }
    let mut raws = open(request, 2).await?;
    let (mut tell, mut waits) = (raws.remove(0), Vec::new());
    let claims = raws.remove(0);
    let (client, mut told) = connect_client(&request.url).await?;
    client.batch_execute("LISTEN punctual_bench").await?;
    for probe in 0..FIRST_PROBES + request.probes {
        if probe == FIRST_PROBES {
            waits.clear();
            request.ready(json!({})).await?;
        }
        tokio::time::sleep(pause(probe)).await;
        let asked = Instant::now();
        let id = tell.enqueue_and_tell().await?;
        told.recv().await.ok_or("the connection ended")?;
        let ids = claims.claim(1).await?;
        if ids != [id] {
            return Err(format!("{id} was to be claimed, and {ids:?} were").into());
        }
        waits.push(milliseconds(asked.elapsed()));
        claims.finish(&ids).await?;
    }
    let account = account::count(&request.url).await?;
    Ok(json!({ "event": "done", "ms": waits, "left": account.left, "background_handled": 0,
               "background_enqueued": account.jobs - i64::try_from(FIRST_PROBES + request.probes)? }))
}

/// When the claims of probes had been answered.
type Starts = mpsc::UnboundedReceiver<(Uuid, Instant)>;

/// Probes among jobs that come at a steady pace: one connection writes these, one the probes, and two work.
async fn latency_beside_others(request: &Request) -> Outcome<Value> {
    let mut raws = open(request, CONNECTIONS + 2).await?;
    let (mut others, mut probes) = (raws.remove(0), raws.remove(0));
    let (over, batch) = (Arc::new(AtomicBool::new(false)), request.batch());
    let (tell, mut starts): (_, Starts) = mpsc::unbounded_channel();
    let work = |raw: Raw| {
        let (over, tell) = (Arc::clone(&over), tell.clone());
        tokio::spawn(async move {
            loop {
                let is_over = over.load(Ordering::SeqCst);
                let ids = raw.claim(batch).await?;
                let now = Instant::now();
                for id in &ids {
                    // Nobody may be waiting any more.
                    let _gone = tell.send((*id, now));
                }
                raw.finish(&ids).await?;
                match ids.len() {
                    0 if is_over => return Outcome::Ok(()),
                    0 => tokio::time::sleep(LOOK).await,
                    _ => {}
                }
            }
        })
    };
    let workers: Vec<_> = raws.into_iter().map(work).collect();
    request.ready(json!({})).await?;
    let (pace, stop) = (request.background_per_second, Arc::clone(&over));
    let background = tokio::spawn(async move {
        let (mut due, mut made) = (Pace::of(pace), 0);
        while !stop.load(Ordering::SeqCst) {
            let some = due.next().await?;
            others.enqueue(some).await?;
            made += some;
        }
        Outcome::Ok(made)
    });
    let mut waits = Vec::new();
    for probe in 0..request.probes {
        tokio::time::sleep(pause(probe)).await;
        let asked = Instant::now();
        let id = probes.enqueue_and_tell().await?;
        let started = loop {
            let (started, at) = starts.recv().await.ok_or("nobody works")?;
            if started == id {
                break at;
            }
        };
        waits.push(milliseconds(started.duration_since(asked)));
    }
    over.store(true, Ordering::SeqCst);
    let made = background.await??;
    for worker in workers {
        worker.await??;
    }
    let account = account::count(&request.url).await?;
    let handled = account.runs - i64::try_from(request.probes)?;
    Ok(json!({ "event": "done", "ms": waits, "left": account.left, "background_handled": handled,
               "background_enqueued": made }))
}

/// One connection produces and two work.
async fn sustained(request: &Request) -> Outcome<Value> {
    let mut raws = open(request, CONNECTIONS + 1).await?;
    let mut producer = raws.remove(0);
    request.ready(json!({})).await?;
    let (counted, over) = (Arc::new(Counted::default()), Arc::new(AtomicBool::new(false)));
    let began = Instant::now();
    let depths = tokio::spawn(watch_depth(Arc::clone(&counted), request.time()));
    let batch = request.batch();
    let workers: Vec<_> = raws
        .into_iter()
        .map(|mut raw| {
            let (counted, over) = (Arc::clone(&counted), Arc::clone(&over));
            tokio::spawn(async move {
                loop {
                    let is_over = over.load(Ordering::SeqCst);
                    let some = raw.claim_and_finish(batch).await?;
                    counted.add(some);
                    match some {
                        0 if is_over => return Outcome::Ok(()),
                        0 => tokio::time::sleep(LOOK).await,
                        _ => {}
                    }
                }
            })
        })
        .collect();
    while began.elapsed() < request.time() {
        if !request.may_produce(&counted, began.elapsed()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        producer.enqueue(batch).await?;
        counted.made(batch);
    }
    let (in_time, seconds) = (counted.now(), began.elapsed().as_secs_f64());
    over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await??;
    }
    let account = account::count(&request.url).await?;
    Ok(json!({ "event": "done", "handled_in_time": in_time, "produced": counted.made(0), "handled": counted.now(),
               "distinct": account.runs, "left": account.left, "kept": account.runs, "seconds": seconds, "depths": depths.await? }))
}

/// Many slots that are due: fired by two connections and run by another, batch by batch, until all have ended.
async fn slots(request: &Request) -> Outcome<Value> {
    let mut raws = open(request, CONNECTIONS + 1).await?;
    raws[0].make_due_schedules(request.schedules).await?;
    request.ready(json!({ "due_in": 0 })).await?;
    let (runs, batch) = (raws.remove(0), request.batch());
    let began = Instant::now();
    let fire = |mut raw: Raw| async move {
        while raw.fire(batch).await? > 0 {}
        Outcome::Ok(())
    };
    let firing: Vec<_> = raws.into_iter().map(|raw| tokio::spawn(fire(raw))).collect();
    let (mut waits, mut ids) = (Vec::new(), Vec::new());
    while waits.len() < request.schedules {
        let (finished, next) = tokio::join!(runs.finish_scheduled(&ids), runs.claim(batch));
        finished?;
        ids = next?;
        let now = milliseconds(began.elapsed());
        waits.extend(std::iter::repeat_n(now, ids.len()));
        if ids.is_empty() {
            tokio::time::sleep(LOOK).await;
        }
    }
    runs.finish_scheduled(&ids).await?;
    for fired in firing {
        fired.await??;
    }
    let account = account::count(&request.url).await?;
    Ok(json!({ "event": "done", "missed": 0, "ms": waits, "kept": account.runs, "left": account.left }))
}
