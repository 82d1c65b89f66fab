//! The same load on every store: enqueue, claim and finish, fire; what the references are compared with.

use crate::figures::{Figure, Report};
use punctual_core::id::ClaimId;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{ClaimRequest, ClaimedJob, FinishedRun, Lease, NewNode, Store};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use std::sync::Arc;
use std::time::Instant;

pub use punctual_measure::Outcome;

/// Jobs in each measure; enough for some seconds on a slow disk.
pub const JOBS: usize = 20_000;
/// Jobs in one transaction, as a busy node would take them.
pub const BATCH: usize = 500;
/// Writes of one row each, which cost an fsync each.
pub const SINGLES: usize = 1_000;
/// Callers that write one row each at the same time.
const CALLERS: usize = 64;
/// Due schedules.
pub const SCHEDULES: usize = 10_000;
/// All jobs of a round: every one must have ended, once, or no figure counts.
pub const TOTAL: usize = JOBS + 2 * SINGLES + SCHEDULES;

/// Units per second since an instant.
pub fn per_second(count: usize, started: Instant) -> f64 {
    each(count) / started.elapsed().as_secs_f64()
}

/// A count to divide by.
pub fn each(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// A job that does nothing.
pub fn job() -> NewJob {
    NewJob::new(Target::task("noop"))
}

/// A node that runs such jobs.
pub async fn node(store: &Arc<dyn Store>) -> Outcome<Lease> {
    Ok(store.register_node(NewNode { name: "bench".into(), offers: vec!["task:noop".into()] }).await?)
}

/// Enqueues in batches.
pub async fn enqueue(store: &Arc<dyn Store>, count: usize) -> Outcome<()> {
    for _ in 0..count / BATCH {
        store.enqueue_jobs((0..BATCH).map(|_| job()).collect()).await?;
    }
    Ok(())
}

/// Puts the whole load on a store. `age` moves all schedules into the past, so that they are due.
pub async fn store_side<A: Future<Output = Outcome<()>>>(
    store: &Arc<dyn Store>, age: impl FnOnce() -> A, report: &mut Report,
) -> Outcome<()> {
    let ours = |rate: f64| (Some(rate), None);
    let started = Instant::now();
    enqueue(store, JOBS).await?;
    report.add(Figure::EnqueueBatched, ours(per_second(JOBS, started)));

    let started = Instant::now();
    for _ in 0..SINGLES {
        store.enqueue_jobs(vec![job()]).await?;
    }
    report.add(Figure::EnqueueSingle, ours(per_second(SINGLES, started)));

    let started = Instant::now();
    enqueue_by_many(store, SINGLES).await?;
    report.add(Figure::EnqueueManyCallers, ours(per_second(SINGLES, started)));

    let node = node(store).await?;
    let started = Instant::now();
    let ended = drain(store, node).await?;
    report.add(Figure::ClaimAndFinish, ours(per_second(ended, started)));

    make_schedules(store, "s", SCHEDULES).await?;
    age().await?;
    let started = Instant::now();
    let fired = fire_all(store).await?;
    report.add(Figure::Fire, ours(per_second(fired, started)));
    drain(store, node).await?;
    Ok(())
}

/// Many callers at once, each writing one row after the other.
pub async fn enqueue_by_many(store: &Arc<dyn Store>, jobs: usize) -> Outcome<()> {
    let callers: Vec<_> = (0..CALLERS)
        .map(|first| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for _ in (first..jobs).step_by(CALLERS) {
                    store.enqueue_jobs(vec![job()]).await?;
                }
                Ok::<_, punctual_core::store::StoreError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(())
}

/// Takes some jobs.
pub async fn claim(store: &Arc<dyn Store>, lease: Lease, limit: usize) -> Outcome<Vec<ClaimedJob>> {
    let request = ClaimRequest {
        lease,
        claim_id: ClaimId(uuid::Uuid::now_v7()),
        queues: Vec::new(),
        job_types: vec!["task:noop".to_owned()],
        limit,
    };
    Ok(store.claim_jobs_if_leased(request).await?.jobs)
}

/// Reports that they are done.
pub async fn finish(store: &Arc<dyn Store>, lease: Lease, claimed: &[ClaimedJob]) -> Outcome<()> {
    let ends = claimed.iter().map(|claimed| FinishedRun::completed(claimed.job.id)).collect();
    store.finish_runs_if_leased(lease, ends).await?;
    Ok(())
}

/// Claims and finishes until nothing is left; says how many there were.
pub async fn drain(store: &Arc<dyn Store>, lease: Lease) -> Outcome<usize> {
    let mut ended = 0;
    loop {
        let claimed = claim(store, lease, BATCH).await?;
        if claimed.is_empty() {
            return Ok(ended);
        }
        finish(store, lease, &claimed).await?;
        ended += claimed.len();
    }
}

/// Fires until nothing is due; says how many jobs were made.
pub async fn fire_all(store: &Arc<dyn Store>) -> Outcome<usize> {
    let mut jobs = 0;
    loop {
        let fired = store.fire_due(None, BATCH).await?;
        if fired.schedules == 0 {
            return Ok(jobs);
        }
        jobs += fired.jobs.len();
    }
}

/// Schedules as users make them.
pub async fn make_schedules(store: &Arc<dyn Store>, prefix: &str, count: usize) -> Outcome<()> {
    let makers: Vec<_> = (0..CALLERS)
        .map(|first| {
            let (store, prefix) = (Arc::clone(store), prefix.to_owned());
            tokio::spawn(async move {
                for n in (first..count).step_by(CALLERS) {
                    let timing = TimingSpec::cron("0 * * * *", "UTC");
                    let name = Name::new(format!("{prefix}{n}"))?;
                    store.create_schedule(ScheduleDefinition::new(name, timing, Target::task("noop"))).await?;
                }
                Ok::<_, punctual_core::store::StoreError>(())
            })
        })
        .collect();
    for maker in makers {
        maker.await??;
    }
    Ok(())
}
