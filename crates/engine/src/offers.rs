//! The pass that compares what schedules need with what live nodes offer, and the loop that repeats it (E06).

use punctual_core::offers::OffersSettled;
use punctual_core::store::{Store, StoreResult};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How many of each kind one transaction changes.
const PAGE: usize = 100;

/// One pass: everything that is to be marked, cleared or given up, a small transaction at a time.
pub async fn settle_offers_once(store: &dyn Store) -> StoreResult<OffersSettled> {
    let mut all = OffersSettled::default();
    loop {
        let some = store.settle_offers(PAGE).await?;
        let full = some.marked + some.cleared >= PAGE || some.given_up.len() >= PAGE;
        all.marked += some.marked;
        all.cleared += some.cleared;
        all.given_up.extend(some.given_up);
        if !full {
            return Ok(all);
        }
    }
}

/// Looks at once, because the node that has just come may offer what others waited for, and from then on every so often.
pub async fn run(store: &dyn Store, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match settle_offers_once(store).await {
            Ok(settled) if settled.changed_anything() => tracing::warn!(
                marked = settled.marked,
                cleared = settled.cleared,
                given_up = settled.given_up.len(),
                "what live nodes offer has changed for schedules"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!("failed to compare schedules with what nodes offer: {error}"),
        }
    }
}
