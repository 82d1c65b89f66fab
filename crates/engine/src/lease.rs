//! A node's lease: renewed by a heartbeat of its own, and given up in time when it cannot be renewed.
//!
//! Others take over when the counter has stood still for a lease. A node that has not been able to renew for two
//! thirds of one therefore stops everything it does: it cannot know whether it still may.

use punctual_core::store::{Heartbeat, Lease, Store, StoreError, StoreResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A lease and when it was last known to hold, on the node's own monotonic clock. All clones know what one of them
/// learns, so that whoever is about to start something can ask.
#[derive(Debug, Clone)]
pub struct HeldLease {
    /// The right itself.
    pub lease: Lease,
    length: Duration,
    /// Until when work may go on, in nanoseconds: two thirds of the lease after the last beat that succeeded was *sent*,
    /// since it may have reached the store any time after.
    holds_until: Arc<AtomicU64>,
}

impl HeldLease {
    /// A lease that was asked for at an instant.
    pub fn new(lease: Lease, length: Duration, asked_at: Duration) -> Self {
        let held = Self { lease, length, holds_until: Arc::default() };
        held.extend(asked_at);
        held
    }

    fn extend(&self, asked_at: Duration) {
        let until = u64::try_from((asked_at + self.length * 2 / 3).as_nanos()).unwrap_or(u64::MAX);
        self.holds_until.fetch_max(until, Ordering::SeqCst);
    }

    /// Whether work under it may go on.
    pub fn holds(&self, now: Duration) -> bool {
        !self.left(now).is_zero()
    }

    /// For how long work under it may still go on.
    pub fn left(&self, now: Duration) -> Duration {
        Duration::from_nanos(self.holds_until.load(Ordering::SeqCst)).saturating_sub(now)
    }

    /// One beat. A store that is out of reach renews nothing; one that answers "lost" has given the lease away.
    pub async fn renew(&self, store: &dyn Store, now: Duration) -> StoreResult<Heartbeat> {
        let beat = store.heartbeat_if_leased(self.lease).await?;
        self.extend(now);
        Ok(beat)
    }

    /// Whether an error means that this lease is over, and not merely that the store could not be asked.
    pub fn is_over(error: &StoreError) -> bool {
        matches!(error, StoreError::LostLease)
    }
}
