//! The scenarios, the same for every peer.

use crate::tally::Tally;
use crate::{Handle, Outcome, Peer, Request, Starter};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};

const BATCH: i64 = 1000;
/// Calls before what counts, as many as Punctual makes; and at least so many by each caller.
const WARM_UP: i64 = 50;
const WARM_UP_EACH: i64 = 2;
const SLOT_MARGIN: Duration = Duration::from_secs(15);
const SLOT_PATIENCE: Duration = Duration::from_secs(30);
const DRAIN_PATIENCE: Duration = Duration::from_secs(60);

pub async fn play<P: Peer>(peer: &Arc<P>, request: &Request, starter: &mut Starter) -> Outcome<Value> {
    match request.scenario.as_str() {
        "drain" => drain(peer, needed("jobs", request.jobs)?, starter).await,
        "enqueue" => enqueue(peer, request, starter).await,
        "latency" => latency(peer, request, starter).await,
        "sustained" => sustained(peer, request, starter).await,
        "slots" => slots(peer, needed("schedules", request.schedules)?, starter).await,
        other => Err(format!("there is no scenario {other:?}").into()),
    }
}

fn needed<T>(name: &str, value: Option<T>) -> Outcome<T> {
    value.ok_or_else(|| format!("the scenario needs {name}: give a number").into())
}

async fn drain<P: Peer>(peer: &Arc<P>, jobs: i64, starter: &mut Starter) -> Outcome<Value> {
    let enqueueing = Instant::now();
    enqueue_in_batches(&**peer, jobs, BATCH).await?;
    let enqueue_seconds = enqueueing.elapsed().as_secs_f64();
    let enqueued = peer.left().await?;
    expect("enqueued", enqueued, jobs)?;
    let tally = Arc::new(Tally::default());
    let started = starter.go(&**peer, json!({"enqueued": enqueued, "enqueue_seconds": enqueue_seconds})).await?;
    peer.work(tally.as_handle()).await?;
    tally.reaches(jobs).await;
    nothing_left(&**peer).await?;
    let seconds = started.elapsed().as_secs_f64();
    let (left, kept) = (peer.left_exactly().await?, peer.kept().await?);
    let (handled, distinct) = (tally.handled(), tally.distinct());
    Ok(json!({"handled": handled, "distinct": distinct, "left": left, "kept": kept, "seconds": seconds}))
}

async fn enqueue<P: Peer>(peer: &Arc<P>, request: &Request, starter: &mut Starter) -> Outcome<Value> {
    let jobs = needed("jobs", request.jobs)?;
    let callers = i64::from(request.callers());
    let single = match request.mode.as_deref() {
        Some("single") => true,
        Some("batch") => false,
        other => return Err(format!("mode is \"single\" or \"batch\", not {other:?}").into()),
    };
    let warm_up = if single { WARM_UP.max(callers * WARM_UP_EACH) } else { WARM_UP };
    if single {
        enqueue_by_callers(peer, callers, warm_up).await?;
    } else {
        enqueue_in_batches(&**peer, warm_up, 1).await?;
    }
    expect("warm-up", peer.left().await?, warm_up)?;
    let started = starter.go(&**peer, json!({})).await?;
    if single {
        enqueue_by_callers(peer, callers, jobs).await?;
    } else {
        enqueue_in_batches(&**peer, jobs, request.batch.unwrap_or(BATCH)).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let all = peer.left().await?;
    expect("stored", all, warm_up + jobs)?;
    let stored = i64::try_from(all)? - warm_up;
    Ok(json!({"enqueued": jobs, "stored": stored, "seconds": seconds}))
}

async fn latency<P: Peer>(peer: &Arc<P>, request: &Request, starter: &mut Starter) -> Outcome<Value> {
    let probes = needed("probes", request.probes)?;
    let background = Arc::new(Tally::default());
    let (said, mut starts) = mpsc::unbounded_channel();
    let tally = Arc::clone(&background);
    // A probe has a number below zero.
    let handle: Handle = Arc::new(move |number| {
        if number < 0 {
            let _ = said.send(Instant::now());
        } else {
            tally.handle(number);
        }
    });
    peer.work(handle).await?;
    for number in 0..3 {
        probe(&**peer, number, &mut starts).await?;
    }
    starter.go(&**peer, json!({})).await?;
    let producer = Producer::start(peer, request.background_per_second.unwrap_or(0));
    let mut ms = Vec::new();
    for number in 0..probes {
        sleep(Duration::from_millis(30 + (53 * number).unsigned_abs() % 140)).await;
        ms.push(probe(&**peer, number, &mut starts).await?);
    }
    let produced = producer.stop().await?;
    let rest = async {
        background.reaches(produced).await;
        nothing_left(&**peer).await
    };
    // Where that is not enough, the counts say so.
    if let Ok(rest) = timeout(DRAIN_PATIENCE, rest).await {
        rest?;
    }
    let (left, kept) = (peer.left_exactly().await?, peer.kept().await?);
    let handled = background.handled();
    Ok(json!({
        "ms": ms, "background_handled": handled, "background_enqueued": produced, "left": left, "kept": kept,
    }))
}

/// Milliseconds from before the call that enqueues to the start of the handler.
async fn probe(peer: &impl Peer, number: i64, starts: &mut mpsc::UnboundedReceiver<Instant>) -> Outcome<f64> {
    let before = Instant::now();
    peer.enqueue_one(-1 - number).await?;
    let start = starts.recv().await.ok_or("the worker has ended")?;
    Ok(start.duration_since(before).as_secs_f64() * 1000.0)
}

async fn sustained<P: Peer>(peer: &Arc<P>, request: &Request, starter: &mut Starter) -> Outcome<Value> {
    let limit = needed("seconds", request.seconds)?;
    let window = request.window.unwrap_or_else(|| peer.window());
    let batch = (window / 4).clamp(1, BATCH);
    let tally = Arc::new(Tally::default());
    let produced = Arc::new(AtomicI64::new(0));
    let started = starter.go(&**peer, json!({})).await?;
    let looking = tokio::spawn(look(started, limit, Arc::clone(&produced), Arc::clone(&tally)));
    peer.work(tally.as_handle()).await?;
    while started.elapsed() < Duration::from_secs(limit) {
        let so_far = produced.load(Ordering::Relaxed);
        if so_far - tally.handled() + batch > window {
            sleep(Duration::from_millis(1)).await;
            continue;
        }
        peer.enqueue_many(so_far..so_far + batch).await?;
        produced.store(so_far + batch, Ordering::Relaxed);
    }
    let in_time = looking.await?;
    let produced = produced.load(Ordering::Relaxed);
    tally.reaches(produced).await;
    nothing_left(&**peer).await?;
    let left = peer.left_exactly().await?;
    let (handled, distinct) = (tally.handled(), tally.distinct());
    Ok(json!({
        "handled_in_time": in_time.handled, "seconds": in_time.seconds, "depths": in_time.depths, "produced": produced,
        "handled": handled, "distinct": distinct, "left": left,
    }))
}

/// What is seen while the time lasts.
struct InTime {
    /// Produced and not handled, once a second.
    depths: Vec<i64>,
    handled: i64,
    /// When that was counted: what comes after, the tail and its counts, belongs to neither.
    seconds: f64,
}

async fn look(started: Instant, limit: u64, produced: Arc<AtomicI64>, tally: Arc<Tally>) -> InTime {
    let mut depths = Vec::new();
    for second in 1..=limit {
        sleep(Duration::from_secs(second).saturating_sub(started.elapsed())).await;
        depths.push(produced.load(Ordering::Relaxed) - tally.handled());
    }
    InTime { depths, handled: tally.handled(), seconds: started.elapsed().as_secs_f64() }
}

async fn slots<P: Peer>(peer: &Arc<P>, schedules: i64, starter: &mut Starter) -> Outcome<Value> {
    starter.go(&**peer, json!({})).await?;
    let soonest = SystemTime::now().duration_since(UNIX_EPOCH)? + SLOT_MARGIN;
    let slot = UNIX_EPOCH + Duration::from_secs((soonest.as_secs() / 60 + 1) * 60);
    let ms = Arc::new(Mutex::new(HashMap::new()));
    let everyone = Arc::new(Notify::new());
    let (late, all) = (Arc::clone(&ms), Arc::clone(&everyone));
    let handle: Handle = Arc::new(move |number| {
        let after = SystemTime::now().duration_since(slot).map_or(-1.0, |after| after.as_secs_f64() * 1000.0);
        let mut late = late.lock().unwrap_or_else(PoisonError::into_inner);
        late.entry(number).or_insert(after);
        if i64::try_from(late.len()).is_ok_and(|started| started == schedules) {
            all.notify_one();
        }
    });
    peer.work_on_schedules(schedules, slot, handle).await?;
    let patience = (slot + SLOT_PATIENCE).duration_since(SystemTime::now())?;
    // Those that have not started are counted.
    let _ = timeout(patience, everyone.notified()).await;
    let ms: Vec<f64> = ms.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
    let missed = schedules - i64::try_from(ms.len())?;
    Ok(json!({"ms": ms, "missed": missed}))
}

async fn enqueue_in_batches(peer: &impl Peer, jobs: i64, batch: i64) -> Outcome<()> {
    let mut next = 0;
    while next < jobs {
        let end = (next + batch).min(jobs);
        peer.enqueue_many(next..end).await?;
        next = end;
    }
    Ok(())
}

async fn enqueue_by_callers<P: Peer>(peer: &Arc<P>, callers: i64, jobs: i64) -> Outcome<()> {
    let next = Arc::new(AtomicI64::new(0));
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (peer, next) = (Arc::clone(peer), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return Outcome::Ok(());
                    }
                    peer.enqueue_one(number).await?;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

/// Waits until the peer's tables say that nothing is left to do.
async fn nothing_left(peer: &impl Peer) -> Outcome<()> {
    while peer.left().await? != 0 {
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

fn expect(what: &str, found: u64, wanted: i64) -> Outcome<()> {
    if i64::try_from(found).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    Err(format!("{what}: the tables say {found}, expected {wanted}").into())
}

/// Enqueues small batches every 10 ms, as many as the rate has come to owe.
struct Producer {
    stopped: Arc<AtomicBool>,
    running: tokio::task::JoinHandle<Outcome<i64>>,
}

impl Producer {
    fn start<P: Peer>(peer: &Arc<P>, per_second: i64) -> Self {
        let stopped = Arc::new(AtomicBool::new(per_second <= 0));
        let (peer, stop) = (Arc::clone(peer), Arc::clone(&stopped));
        let running = tokio::spawn(async move {
            let (started, mut produced) = (Instant::now(), 0);
            while !stop.load(Ordering::Relaxed) {
                let elapsed = i64::try_from(started.elapsed().as_millis())?;
                let owed = (elapsed * per_second / 1000 - produced).min(BATCH);
                if owed > 0 {
                    peer.enqueue_many(produced..produced + owed).await?;
                    produced += owed;
                }
                sleep(Duration::from_millis(10)).await;
            }
            Ok(produced)
        });
        Self { stopped, running }
    }

    async fn stop(self) -> Outcome<i64> {
        self.stopped.store(true, Ordering::Relaxed);
        self.running.await?
    }
}
