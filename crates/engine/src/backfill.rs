//! Making up for the past: the pass that takes a backfill's next step, and the loop that takes one after the other.

use crate::again::again_and_again;
use crate::phase::Phase;
use punctual_core::store::{Store, StoreResult};
use std::time::Duration;

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

/// Goes on for ever: step after step while there are any.
pub async fn run(store: &dyn Store, every: Duration) {
    again_and_again(store, every, "a backfill", |store| {
        Box::pin(async move { Ok(backfill_once(store).await?.again_in) })
    })
    .await;
}
