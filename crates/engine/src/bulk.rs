//! Changing many jobs: the pass that takes a bulk operation's next step, and the loop that takes one after the other.

use crate::phase::Phase;
use punctual_core::bulk::BulkStep;
use punctual_core::store::{Store, StoreResult};
use std::time::Duration;
use tokio::time::sleep;

/// How long a store that fails is left alone.
const SETBACK: Duration = Duration::from_secs(1);

/// Takes one step.
pub async fn bulk_once(store: &dyn Store) -> StoreResult<BulkStep> {
    let _phase = Phase::enter("bulk");
    store.advance_bulks().await
}

/// Goes on for ever: step after step while there are any, and after that when somebody begins an operation, or every so
/// often.
pub async fn run(store: &dyn Store, every: Duration) {
    let mut plans = store.plan_changes();
    loop {
        let wait = match bulk_once(store).await {
            Ok(BulkStep { more: true, .. }) => Duration::ZERO,
            Ok(_) => every,
            Err(error) => {
                tracing::warn!("failed to go on with a bulk operation: {error}");
                SETBACK
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            () = plans.next() => {}
        }
    }
}
