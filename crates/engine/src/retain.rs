//! Retention: the pass that forgets what no rule keeps, in small steps, and the loop that makes one now and then.

use jiff::{SignedDuration, Timestamp};
use punctual_core::store::{PruneFrom, Retention, Store, StoreResult};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Rows looked at by one transaction, so that nothing else waits long for it.
const STEP: usize = 500;

/// What is kept. A run is kept if any of the rules keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How long after their end runs are kept; `None` is for ever.
    pub runs: Option<SignedDuration>,
    /// The same for runs that failed.
    pub failed: Option<SignedDuration>,
    /// The latest so many jobs of each schedule are kept however old they are.
    pub last: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { runs: Some(days(30)), failed: Some(days(90)), last: 20 }
    }
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

impl Keep {
    /// Nothing is ever forgotten.
    pub const FOREVER: Self = Self { runs: None, failed: None, last: 0 };

    /// What may be forgotten at an instant. The slot ledger and the outbox tell of runs, and are kept as long as the
    /// longest of them.
    fn at(&self, now: Timestamp) -> Retention {
        let before = |kept: Option<SignedDuration>| {
            kept.map_or(Timestamp::MIN, |kept| now.saturating_sub(kept).unwrap_or(Timestamp::MIN))
        };
        let (runs_before, failed_before) = (before(self.runs), before(self.failed));
        Retention {
            runs_before,
            failed_before,
            keep_last: self.last,
            slots_before: runs_before.min(failed_before),
            limit: STEP,
            from: PruneFrom::default(),
        }
    }
}

/// What one pass forgot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetainPass {
    /// Jobs with their runs.
    pub jobs: usize,
    /// Ledger rows.
    pub slots: usize,
    /// Notices.
    pub notices: usize,
    /// Transactions that it took.
    pub steps: usize,
}

/// Looks through the history once. A chain of retries goes from its end, one job in each pass.
pub async fn retain_once(store: &dyn Store, keep: &Keep) -> StoreResult<RetainPass> {
    let mut retention = keep.at(store.now().await?);
    let mut pass = RetainPass::default();
    loop {
        let pruned = store.prune_history(retention).await?;
        pass.jobs += pruned.jobs;
        pass.slots += pruned.slots;
        pass.notices += pruned.notices;
        pass.steps += 1;
        match pruned.next {
            Some(from) => retention.from = from,
            None => return Ok(pass),
        }
        // Whoever waits for the store goes first.
        tokio::task::yield_now().await;
    }
}

/// Forgets every so often; a store that fails is asked again the next time.
pub async fn run(store: &dyn Store, keep: Keep, every: Duration) {
    if keep == Keep::FOREVER {
        return;
    }
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match retain_once(store, &keep).await {
            Ok(pass) if pass.jobs + pass.slots + pass.notices > 0 => {
                tracing::debug!(jobs = pass.jobs, slots = pass.slots, notices = pass.notices, "forgot old history");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("failed to forget old history: {error}"),
        }
    }
}
