//! The same load on every store: enqueue, claim and finish, fire; what the references are compared with.

use crate::figures::{Figure, Report};
use punctual_core::id::ClaimId;
use punctual_core::job::NewJob;
use punctual_core::name::Name;
use punctual_core::schedule::ScheduleDefinition;
use punctual_core::store::{ClaimRequest, FinishedRun, Lease, NewNode, Store};
use punctual_core::target::Target;
use punctual_core::timing::TimingSpec;
use std::sync::Arc;
use std::time::Instant;

/// What goes wrong in a benchmark ends it.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

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
    let count = u32::try_from(count).map_or(f64::MAX, f64::from);
    count / started.elapsed().as_secs_f64()
}

/// Puts the whole load on a store. `age` moves all schedules into the past, so that they are due.
pub async fn store_side<A: Future<Output = Outcome<()>>>(
    store: &Arc<dyn Store>, age: impl FnOnce() -> A, report: &mut Report,
) -> Outcome<()> {
    let job = || NewJob::new(Target::task("noop"));
    let started = Instant::now();
    for _ in 0..JOBS / BATCH {
        store.enqueue_jobs((0..BATCH).map(|_| job()).collect()).await?;
    }
    report.add(Figure::EnqueueBatched, Some(per_second(JOBS, started)), None);

    let started = Instant::now();
    for _ in 0..SINGLES {
        store.enqueue_jobs(vec![job()]).await?;
    }
    report.add(Figure::EnqueueSingle, Some(per_second(SINGLES, started)), None);

    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for _ in 0..SINGLES / CALLERS {
                    store.enqueue_jobs(vec![NewJob::new(Target::task("noop"))]).await?;
                }
                Ok::<_, punctual_core::store::StoreError>(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    let written = SINGLES / CALLERS * CALLERS;
    report.add(Figure::EnqueueManyCallers, Some(per_second(written, started)), None);
    store.enqueue_jobs((written..SINGLES).map(|_| job()).collect()).await?;

    let node = store.register_node(NewNode { name: "bench".into(), offers: vec!["task:noop".into()] }).await?;
    let total = JOBS + 2 * SINGLES;
    let started = Instant::now();
    drain(store, node).await?;
    report.add(Figure::ClaimAndFinish, Some(per_second(total, started)), None);

    make_schedules(store).await?;
    age().await?;
    let started = Instant::now();
    let mut fired = 0;
    while fired < SCHEDULES {
        fired += store.fire_due(None, BATCH).await?.jobs.len();
    }
    report.add(Figure::Fire, Some(per_second(SCHEDULES, started)), None);
    drain(store, node).await
}

/// Claims and finishes until nothing is left.
async fn drain(store: &Arc<dyn Store>, lease: Lease) -> Outcome<()> {
    loop {
        let request = ClaimRequest {
            lease,
            claim_id: ClaimId(uuid::Uuid::now_v7()),
            queues: Vec::new(),
            job_types: vec!["task:noop".to_owned()],
            limit: BATCH,
        };
        let claimed = store.claim_jobs_if_leased(request).await?;
        if claimed.is_empty() {
            return Ok(());
        }
        let ends = claimed.iter().map(|claimed| FinishedRun::completed(claimed.job.id)).collect();
        store.finish_runs_if_leased(lease, ends).await?;
    }
}

/// Schedules as users make them.
async fn make_schedules(store: &Arc<dyn Store>) -> Outcome<()> {
    let timing = TimingSpec::cron("* * * * *", "UTC");
    let made: Vec<_> = (0..SCHEDULES)
        .map(|n| {
            let (store, timing) = (Arc::clone(store), timing.clone());
            tokio::spawn(async move {
                let name = Name::new(format!("s{n}"))?;
                store.create_schedule(ScheduleDefinition::new(name, timing, Target::task("noop"))).await
            })
        })
        .collect();
    for schedule in made {
        schedule.await??;
    }
    Ok(())
}
