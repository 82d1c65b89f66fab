//! Firing: the pass that decides what is due, and the loop that sleeps until something is.

use crate::clock::Uptime;
use crate::frozen::{self, Frozen};
use crate::measure::Stopwatch;
use crate::memory::{Fallback, Memory, MemoryOptions, fire_from_memory};
use crate::phase::Phase;
use punctual_core::id::{NodeId, ScheduleId};
use punctual_core::meter::{Meter, NoMeter, StoreVerb};
use punctual_core::slot::NotRun;
use punctual_core::store::{Store, StoreError, StoreResult};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The most rounds one pass takes, so that a pass ends, and says what it did, however much there is to do.
const ROUNDS_PER_PASS: usize = 32;

/// The first batch of a pass is small, so that its jobs can start soon; those behind it, two in each round, are so many
/// times as large.
const LATER_BATCHES: usize = 2;

/// How long the loop waits after a pass that failed, or that changed nothing although something is due.
const SETBACK: Duration = Duration::from_millis(250);

/// What one pass did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirePass {
    /// Schedules that were looked at.
    pub schedules: usize,
    /// Jobs that were made for their slots.
    pub jobs: usize,
    /// Slots that were decided not to run.
    pub slots_not_run: u64,
    /// The same by why.
    pub not_run: NotRun,
    /// Plans that were made anew (E01, A08).
    pub replanned: usize,
    /// Schedules that could not be understood (E02).
    pub problems: usize,
    /// Schedules that paused after failures, or whose pause was over, or of which SQL had asked something.
    pub steered: usize,
    /// Delayed jobs whose time had come.
    pub promoted: usize,
    /// Whether something was still due at the end.
    pub more: bool,
}

impl FirePass {
    /// Whether anything was changed. A pass that changed nothing will change nothing if it is repeated at once.
    pub fn changed_anything(&self) -> bool {
        let schedules = self.jobs + self.replanned + self.problems + self.steered + self.promoted;
        schedules > 0 || self.slots_not_run > 0
    }

    fn add(&mut self, batch: &Self) {
        self.schedules += batch.schedules;
        self.jobs += batch.jobs;
        self.slots_not_run += batch.slots_not_run;
        self.not_run.add_all(&batch.not_run);
        self.replanned += batch.replanned;
        self.problems += batch.problems;
        self.steered += batch.steered;
        self.promoted += batch.promoted;
    }

    /// Whether a node that waits for work should look again.
    pub fn made_work(&self) -> bool {
        self.jobs + self.promoted > 0
    }
}

/// Fires what is due and promotes the delayed jobs whose time has come, in a first batch of at most `limit` and larger
/// ones after it, until nothing is due or the pass has reached its bound.
pub async fn fire_once(store: &dyn Store, node: Option<NodeId>, limit: usize) -> StoreResult<FirePass> {
    fire_pass(store, node, limit, &Stopwatch::unread()).await
}

async fn fire_pass(store: &dyn Store, node: Option<NodeId>, limit: usize, watch: &Stopwatch) -> StoreResult<FirePass> {
    let mut pass = FirePass::default();
    for round in 0..ROUNDS_PER_PASS {
        let batch = match round {
            0 => fire_batch(store, node, limit, watch).await?,
            _ => fire_two_batches(store, node, limit.saturating_mul(LATER_BATCHES), watch).await?,
        };
        pass.add(&batch);
        // A schedule with much to catch up on is due again at once, so a short batch is not the end. Behind a full one
        // nobody needs to be asked.
        pass.more = batch.more || is_due_now(store, watch).await?;
        if !pass.more || !batch.changed_anything() {
            break;
        }
    }
    Ok(pass)
}

/// While the slots of one batch are decided here, the store is at the other.
async fn fire_two_batches(
    store: &dyn Store, node: Option<NodeId>, limit: usize, watch: &Stopwatch,
) -> StoreResult<FirePass> {
    let (one, other) = tokio::join!(fire_batch(store, node, limit, watch), fire_slots(store, node, limit, watch));
    let (mut both, other) = (one?, other?);
    both.add(&other);
    both.more |= other.more;
    Ok(both)
}

async fn fire_batch(store: &dyn Store, node: Option<NodeId>, limit: usize, watch: &Stopwatch) -> StoreResult<FirePass> {
    let fired = fire_slots(store, node, limit, watch).await;
    // Delayed jobs, retries among them, do not wait for schedules that cannot be fired.
    let promoted = watch.time(StoreVerb::Promote, store.promote_due_jobs(limit)).await;
    Ok(FirePass { promoted: promoted?, ..fired? })
}

async fn fire_slots(store: &dyn Store, node: Option<NodeId>, limit: usize, watch: &Stopwatch) -> StoreResult<FirePass> {
    let _phase = Phase::enter("fire");
    let fired = watch.time(StoreVerb::Fire, store.fire_due(node, limit)).await?;
    Ok(FirePass {
        schedules: fired.schedules,
        jobs: fired.jobs.len(),
        slots_not_run: fired.slots_not_run,
        not_run: fired.not_run,
        replanned: fired.replanned,
        problems: fired.problems,
        steered: fired.steered,
        promoted: 0,
        // Those that only wait, for the cap for example, say nothing about what is behind them.
        more: fired.schedules.min(fired.jobs.len()) >= limit,
    })
}

async fn is_due_now(store: &dyn Store, watch: &Stopwatch) -> StoreResult<bool> {
    Ok(watch.time(StoreVerb::NextDue, store.next_due_in()).await?.is_some_and(|wait| !wait.is_positive()))
}

/// How the loop goes about it.
#[derive(Debug, Clone)]
pub struct FireOptions {
    /// Who fires, for the ledger.
    pub node: Option<NodeId>,
    /// Schedules decided by one transaction.
    pub limit: usize,
    /// The longest sleep: a wake-up that got lost costs no more than this.
    pub sweep: Duration,
    /// What is remembered, and when it is fired from.
    pub memory: MemoryOptions,
    /// The schedules that this node's program declares.
    pub declared: Vec<ScheduleId>,
    /// Who counts.
    pub meter: Arc<dyn Meter>,
}

impl Default for FireOptions {
    fn default() -> Self {
        Self {
            node: None,
            limit: 200,
            sweep: Duration::from_secs(30),
            memory: MemoryOptions::default(),
            declared: Vec::new(),
            meter: Arc::new(NoMeter),
        }
    }
}

/// Who hears what the loop does.
pub trait FireWatch: Send {
    /// What a pass did, so that whoever waits for work can be told.
    fn on_pass(&mut self, pass: &FirePass);
    /// Where the node fires from has changed.
    fn on_fallback(&mut self, fallback: Fallback);
}

/// Fires on time until `shutdown` is done: sleeps until the store says that something is due, until the store says
/// that the plans have changed, or until the sweep, whichever comes first. A store that fails is tried again, and
/// schedules that cannot be read are fired as they were last seen.
pub async fn run_until(
    store: &dyn Store, options: &FireOptions, uptime: Uptime, watch: &mut dyn FireWatch,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut plans = store.plan_changes();
    let mut memory = Memory::new(options.memory.clone(), options.declared.clone());
    let stopwatch = Stopwatch::new(Arc::clone(&options.meter), uptime);
    let (mut setback, mut changed) = (false, true);
    let mut frozen = Frozen::default();
    loop {
        let mut stale_in = memory.stale_in(uptime.now(), changed);
        if stale_in == Some(Duration::ZERO) && !setback {
            if let Err(error) = memory.refresh(store, uptime.now()).await {
                tracing::warn!("failed to read the schedules that are due soon: {error}");
                setback = true;
            }
            (changed, stale_in) = (false, None);
        }
        let nap = match until_due(store, options.sweep, setback, &stopwatch).await {
            Ok(nap) => nap,
            // Whoever cannot say when something is due is asked to fire, so that it is noticed when he cannot.
            Err(error) => {
                tracing::warn!("failed to ask when something is due: {error}");
                setback = true;
                SETBACK
            }
        };
        let nap = nap.min(until_due_in_memory(store, &memory).await);
        tokio::select! {
            // What is being written when the shutdown comes is finished first: a pass is never cut.
            biased;
            () = &mut shutdown => return,
            () = plans.next(), if !setback => {
                changed = true;
                continue;
            }
            () = sleep(stale_in.unwrap_or_default()), if changed && !setback && stale_in.is_some() => continue,
            () = sleep(nap) => {}
        }
        setback = match fire_somehow(store, options, uptime, &mut memory, watch).await {
            Ok(setback) => {
                frozen.is_over("firing");
                setback
            }
            Err(error) => {
                frozen.is_why("firing", &error);
                tokio::select! {
                    () = &mut shutdown => return,
                    () = sleep(frozen::LOOK) => true,
                }
            }
        };
    }
}

/// One pass of the store, if it can, and one of memory; says whether it is no use to come back at once. An error is a
/// freeze: what must not be fired at all is not fired from memory, either.
async fn fire_somehow(
    store: &dyn Store, options: &FireOptions, uptime: Uptime, memory: &mut Memory, watch: &mut dyn FireWatch,
) -> StoreResult<bool> {
    let mut setback = true;
    if memory.asks_store(uptime.now()) {
        let stopwatch = Stopwatch::new(Arc::clone(&options.meter), uptime);
        let (fallback, pass) = match fire_pass(store, options.node, options.limit, &stopwatch).await {
            Ok(pass) => (memory.succeeded(), Some(pass)),
            Err(error @ StoreError::Frozen { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!("failed to fire what is due: {error}");
                (memory.failed(uptime.now()), None)
            }
        };
        if let Some(pass) = pass {
            report(&pass);
            watch.on_pass(&pass);
            // What is due and yet not decided would be found due again and again.
            setback = pass.more && !pass.changed_anything();
        }
        if let Some(fallback) = fallback {
            report_fallback(fallback);
            watch.on_fallback(fallback);
        }
    } else if let Err(error) = store.promote_due_jobs(options.limit).await {
        tracing::warn!("failed to promote delayed jobs: {error}");
    }
    match fire_from_memory(store, options.node, memory).await {
        Ok(pass) if pass.changed_anything() => {
            report(&pass);
            watch.on_pass(&pass);
        }
        Ok(_) => {}
        Err(error @ StoreError::Frozen { .. }) => return Err(error),
        Err(error) => tracing::warn!("failed to fire from memory: {error}"),
    }
    Ok(setback)
}

/// How long until there is something to do in the store.
async fn until_due(store: &dyn Store, sweep: Duration, setback: bool, stopwatch: &Stopwatch) -> StoreResult<Duration> {
    if setback {
        return Ok(SETBACK);
    }
    let wait = stopwatch.time(StoreVerb::NextDue, store.next_due_in()).await?;
    Ok(wait.map_or(sweep, |wait| Duration::try_from(wait).unwrap_or(Duration::ZERO).min(sweep)))
}

/// How long until there is something to fire from memory.
async fn until_due_in_memory(store: &dyn Store, memory: &Memory) -> Duration {
    let Some(due) = memory.next_due() else { return Duration::MAX };
    match store.now().await {
        Ok(now) => Duration::try_from(due.duration_since(now)).unwrap_or(Duration::ZERO),
        Err(_) => SETBACK,
    }
}

/// Loud, because a person has to look.
fn report_fallback(fallback: Fallback) {
    match fallback {
        Fallback::Began { schedules } => tracing::error!(
            schedules,
            "the schedules cannot be read or written; those that were due soon are fired from memory, each slot once"
        ),
        Fallback::Ended => tracing::warn!("the schedules are back; the store fires them again"),
        Fallback::GaveUp => {
            tracing::error!("the schedules have been out of reach for too long; nothing is fired from memory any more");
        }
    }
}

fn report(pass: &FirePass) {
    if pass.replanned + pass.problems > 0 {
        tracing::warn!(replanned = pass.replanned, problems = pass.problems, "schedules needed mending");
    } else if pass.changed_anything() {
        tracing::debug!(jobs = pass.jobs, slots_not_run = pass.slots_not_run, promoted = pass.promoted, "fired");
    }
}
