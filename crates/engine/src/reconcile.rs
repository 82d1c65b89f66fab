//! Reconciling: at the start and from time to time, every plan is looked at, and impossible ones are made anew (A08).

use punctual_core::store::{Store, StoreResult};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Schedules looked at by one transaction, so that firing never waits long for it.
const PAGE: usize = 200;

/// What one pass found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReconcilePass {
    /// Schedules that were looked at.
    pub looked_at: usize,
    /// Plans that were made anew; nothing in normal running.
    pub replanned: usize,
    /// Schedules that were fired under a clock far ahead of the present one.
    pub stuck_ahead: usize,
}

/// Looks through all schedules, a page at a time.
pub async fn reconcile_once(store: &dyn Store) -> StoreResult<ReconcilePass> {
    let mut pass = ReconcilePass::default();
    let mut after = None;
    loop {
        let page = store.reconcile_schedules(after, PAGE).await?;
        pass.looked_at += page.looked_at;
        pass.replanned += page.replanned;
        pass.stuck_ahead += page.stuck_ahead;
        after = page.next;
        if after.is_none() {
            return Ok(pass);
        }
    }
}

/// Reconciles at once and then every so often; a store that fails is asked again the next time.
pub async fn run(store: &dyn Store, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match reconcile_once(store).await {
            Ok(ReconcilePass { replanned: 0, stuck_ahead: 0, .. }) => {}
            Ok(pass) => {
                let (replanned, stuck_ahead) = (pass.replanned, pass.stuck_ahead);
                tracing::warn!(replanned, stuck_ahead, "plans were missing, impossible or far ahead of the clock");
            }
            Err(error) => tracing::warn!("failed to look through the plans: {error}"),
        }
    }
}
