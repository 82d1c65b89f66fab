//! Firing: the pass that decides what is due, and the loop that sleeps until something is.

use crate::phase::Phase;
use punctual_core::id::NodeId;
use punctual_core::store::{Store, StoreResult};
use std::pin::pin;
use std::time::Duration;
use tokio::time::sleep;

/// The most batches one pass takes, so that a pass ends, and says what it did, however much there is to do.
const BATCHES_PER_PASS: usize = 64;

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
    /// Plans that were made anew (E01, A08).
    pub replanned: usize,
    /// Schedules that could not be understood (E02).
    pub problems: usize,
    /// Delayed jobs whose time had come.
    pub promoted: usize,
    /// Whether something was still due at the end.
    pub more: bool,
}

impl FirePass {
    /// Whether anything was changed. A pass that changed nothing will change nothing if it is repeated at once.
    pub fn changed_anything(&self) -> bool {
        let schedules = self.jobs + self.replanned + self.problems + self.promoted;
        schedules > 0 || self.slots_not_run > 0
    }

    fn add(&mut self, batch: &Self) {
        self.schedules += batch.schedules;
        self.jobs += batch.jobs;
        self.slots_not_run += batch.slots_not_run;
        self.replanned += batch.replanned;
        self.problems += batch.problems;
        self.promoted += batch.promoted;
    }

    /// Whether a node that waits for work should look again.
    pub fn made_work(&self) -> bool {
        self.jobs + self.promoted > 0
    }
}

/// Fires what is due and promotes the delayed jobs whose time has come, in batches of at most `limit`, until nothing
/// is due or the pass has reached its bound.
pub async fn fire_once(store: &dyn Store, node: Option<NodeId>, limit: usize) -> StoreResult<FirePass> {
    let mut pass = FirePass::default();
    for _ in 0..BATCHES_PER_PASS {
        let batch = fire_batch(store, node, limit).await?;
        pass.add(&batch);
        // A schedule with much to catch up on is due again at once, so a short batch is not the end.
        pass.more = is_due_now(store).await?;
        if !pass.more || !batch.changed_anything() {
            break;
        }
    }
    Ok(pass)
}

async fn fire_batch(store: &dyn Store, node: Option<NodeId>, limit: usize) -> StoreResult<FirePass> {
    let phase = Phase::enter("fire");
    let fired = store.fire_due(node, limit).await?;
    drop(phase);
    Ok(FirePass {
        schedules: fired.schedules,
        jobs: fired.jobs.len(),
        slots_not_run: fired.slots_not_run,
        replanned: fired.replanned,
        problems: fired.problems,
        promoted: store.promote_due_jobs(limit).await?,
        more: false,
    })
}

async fn is_due_now(store: &dyn Store) -> StoreResult<bool> {
    Ok(store.next_due_in().await?.is_some_and(|wait| !wait.is_positive()))
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
}

impl Default for FireOptions {
    fn default() -> Self {
        Self { node: None, limit: 100, sweep: Duration::from_secs(30) }
    }
}

/// Fires on time until `shutdown` is done: sleeps until the store says that something is due, until the store says
/// that the plans have changed, or until the sweep, whichever comes first. A store that fails is tried again.
///
/// `on_pass` hears what each pass did, so that whoever waits for work can be told.
pub async fn run_until(
    store: &dyn Store, options: &FireOptions, mut on_pass: impl FnMut(&FirePass), shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut changes = store.changes();
    let mut setback = false;
    loop {
        let nap = if setback { SETBACK } else { nap(store, options.sweep).await };
        tokio::select! {
            // What is being written when the shutdown comes is finished first: a pass is never cut.
            biased;
            () = &mut shutdown => return,
            () = changes.next(), if !setback => continue,
            () = sleep(nap) => {}
        }
        setback = match fire_once(store, options.node, options.limit).await {
            Ok(pass) => {
                report(&pass);
                on_pass(&pass);
                // What is due and yet not decided would be found due again and again.
                pass.more && !pass.changed_anything()
            }
            Err(error) => {
                tracing::warn!("failed to fire what is due: {error}");
                true
            }
        };
    }
}

/// How long until there is something to do.
async fn nap(store: &dyn Store, sweep: Duration) -> Duration {
    match store.next_due_in().await {
        Ok(Some(wait)) => Duration::try_from(wait).unwrap_or(Duration::ZERO).min(sweep),
        Ok(None) => sweep,
        Err(error) => {
            tracing::warn!("failed to ask when something is due: {error}");
            SETBACK
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
