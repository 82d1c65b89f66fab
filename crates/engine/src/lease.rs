//! A node's lease: renewed by a heartbeat of its own, and given up in time when it cannot be renewed.
//!
//! Others take over when the counter has stood still for a lease. A node that has not been able to renew for two
//! thirds of one therefore stops everything it does: it cannot know whether it still may.

use punctual_core::store::{Heartbeat, Lease, Store, StoreError, StoreResult};
use std::time::Duration;

/// A lease and when it was last known to hold, on the node's own monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct HeldLease {
    /// The right itself.
    pub lease: Lease,
    length: Duration,
    /// When the last beat that succeeded was *sent*: it may have reached the store any time after.
    renewed_at: Duration,
}

impl HeldLease {
    /// A lease that was taken at an instant.
    pub fn new(lease: Lease, length: Duration, now: Duration) -> Self {
        Self { lease, length, renewed_at: now }
    }

    /// Whether work under it may go on.
    pub fn holds(&self, now: Duration) -> bool {
        now.saturating_sub(self.renewed_at) < self.length * 2 / 3
    }

    /// One beat. A store that is out of reach renews nothing; one that answers "lost" has given the lease away.
    pub async fn renew(&mut self, store: &dyn Store, now: Duration) -> StoreResult<Heartbeat> {
        let beat = store.heartbeat_if_leased(self.lease).await?;
        self.renewed_at = self.renewed_at.max(now);
        Ok(beat)
    }

    /// Whether an error means that this lease is over, and not merely that the store could not be asked.
    pub fn is_over(error: &StoreError) -> bool {
        matches!(error, StoreError::LostLease)
    }
}
