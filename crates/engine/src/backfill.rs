//! Making up for the past: the pass that takes a backfill's next step, and the loop that takes one after the other.

use crate::phase::Phase;
use punctual_core::store::{Store, StoreResult};
use std::time::Duration;
use tokio::time::sleep;

/// How long a store that fails is left alone.
const SETBACK: Duration = Duration::from_secs(1);

/// What one pass made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackfillPass {
    /// Jobs.
    pub jobs: usize,
    /// Backfills that came to their end.
    pub ended: usize,
    /// When there is something to do again; `None` when no backfill is open.
    pub again_in: Option<Duration>,
}

/// Takes one step.
pub async fn backfill_once(store: &dyn Store) -> StoreResult<BackfillPass> {
    let done = {
        let _phase = Phase::enter("backfill");
        store.advance_backfills().await?
    };
    let again_in = done.again_in.map(|wait| Duration::try_from(wait).unwrap_or_default());
    Ok(BackfillPass { jobs: done.jobs.len(), ended: done.ended, again_in })
}

/// Goes on for ever: step after step while there are any, and after that when somebody changes a plan, or every so
/// often.
pub async fn run(store: &dyn Store, every: Duration) {
    let mut plans = store.plan_changes();
    loop {
        let wait = match backfill_once(store).await {
            Ok(pass) => pass.again_in.unwrap_or(every).min(every),
            Err(error) => {
                tracing::warn!("failed to go on with a backfill: {error}");
                SETBACK
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = plans.next() => {}
        }
    }
}
