//! Changing many jobs: the pass that takes a bulk operation's next step, and the loop that takes one after the other.

use crate::again::again_and_again;
use crate::phase::Phase;
use punctual_core::bulk::BulkStep;
use punctual_core::store::{Store, StoreResult};
use std::time::Duration;

/// Takes one step.
pub async fn bulk_once(store: &dyn Store) -> StoreResult<BulkStep> {
    let _phase = Phase::enter("bulk");
    store.advance_bulks().await
}

/// Goes on for ever: step after step while there are any.
pub async fn run(store: &dyn Store, every: Duration) {
    again_and_again(store, every, "a bulk operation", |store| {
        Box::pin(async move { Ok(bulk_once(store).await?.more.then_some(Duration::ZERO)) })
    })
    .await;
}
