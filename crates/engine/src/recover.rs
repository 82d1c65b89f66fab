//! Recovery: watching other nodes' heartbeats on our own clock, and judging what a lost one left behind.
//!
//! A node is lost when its heartbeat *counter* stood still for a whole lease on the observer's monotonic clock. No
//! wall clock is compared, so a jump of any of them, the database's included, expires nothing.

use crate::clock::Uptime;
use crate::phase::Phase;
use punctual_core::id::LeaseId;
use punctual_core::store::{Lease, LostNode, NodePulse, Recovered, Store, StoreResult};
use std::collections::HashMap;
use std::time::Duration;

/// What one observer has seen of the others.
#[derive(Debug)]
pub struct Observer {
    lease: Duration,
    seen: HashMap<LeaseId, Sighting>,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    counter: i64,
    /// On the observer's monotonic clock.
    since: Duration,
}

impl Observer {
    /// An observer that has seen nobody yet.
    pub fn new(lease: Duration) -> Self {
        Self { lease, seen: HashMap::new() }
    }

    /// Notes the counters that were asked for at one instant of the observer's monotonic clock and heard of at another;
    /// returns who is lost. They were read at some time between the two, so that a counter has stood still only from when
    /// it was heard of first until it was asked for last.
    pub fn look(&mut self, pulses: &[NodePulse], asked_at: Duration, heard_at: Duration) -> Vec<LostNode> {
        self.seen.retain(|lease_id, _| pulses.iter().any(|pulse| pulse.lease_id == *lease_id));
        pulses.iter().filter_map(|pulse| self.look_at(pulse, asked_at, heard_at)).collect()
    }

    fn look_at(&mut self, pulse: &NodePulse, asked_at: Duration, heard_at: Duration) -> Option<LostNode> {
        let fresh = Sighting { counter: pulse.counter, since: heard_at };
        let seen = self.seen.entry(pulse.lease_id).or_insert(fresh);
        if seen.counter != pulse.counter {
            *seen = fresh;
        }
        let still = asked_at.saturating_sub(seen.since);
        let lease = Lease { node_id: pulse.node_id, lease_id: pulse.lease_id };
        (still >= self.lease).then_some(LostNode { lease, counter: pulse.counter })
    }
}

/// One pass: looks at all nodes, and recovers what the lost ones and half-done recoveries left.
pub async fn recover_once(store: &dyn Store, observer: &mut Observer, uptime: Uptime) -> StoreResult<Recovered> {
    let asked_at = uptime.now();
    let pulses = store.node_pulses().await?;
    let lost = observer.look(&pulses, asked_at, uptime.now());
    tracing::trace!(nodes = pulses.len(), lost = lost.len(), "looked for lost nodes");
    let _phase = (!lost.is_empty()).then(|| Phase::enter("recover"));
    let recovered = store.recover_lost_nodes(lost).await?;
    if recovered != Recovered::default() {
        tracing::warn!(
            nodes = recovered.nodes,
            closed = recovered.closed.len(),
            retries = recovered.retries.len(),
            leftovers = recovered.leftovers,
            "recovered what lost nodes left behind"
        );
    }
    Ok(recovered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::id::NodeId;

    fn pulse(id: u8, counter: i64) -> NodePulse {
        NodePulse {
            node_id: NodeId::from_bytes([id; 16]),
            lease_id: LeaseId::from_bytes([id; 16]),
            name: format!("n{id}"),
            counter,
            offers: Vec::new(),
        }
    }

    #[test]
    fn c09_a_node_is_lost_when_its_counter_stood_still_for_a_whole_lease() {
        let mut observer = Observer::new(Duration::from_secs(15));
        let mut look =
            |pulses: &[NodePulse], at: u64| observer.look(pulses, Duration::from_secs(at), Duration::from_secs(at));
        assert!(look(&[pulse(1, 5), pulse(2, 5)], 100).is_empty());
        assert!(look(&[pulse(1, 5), pulse(2, 6)], 114).is_empty());
        let lost = look(&[pulse(1, 5), pulse(2, 6)], 115);
        assert_eq!(lost.iter().map(|lost| lost.lease.node_id).collect::<Vec<_>>(), [NodeId::from_bytes([1; 16])]);
        assert_eq!(lost[0].counter, 5);
    }

    #[test]
    fn c09_a_new_observer_gives_everybody_a_whole_lease() {
        let mut observer = Observer::new(Duration::from_secs(15));
        let late = Duration::from_secs(1_000_000);
        assert!(observer.look(&[pulse(1, 5)], late, late).is_empty());
    }

    #[test]
    fn c09_a_slow_answer_counts_against_nobody() {
        let mut observer = Observer::new(Duration::from_secs(15));
        let at = Duration::from_secs;
        // Asked at 100 and heard at 114: the counter may have been read at any time between.
        assert!(observer.look(&[pulse(1, 5)], at(100), at(114)).is_empty());
        assert!(observer.look(&[pulse(1, 5)], at(116), at(117)).is_empty());
        assert_eq!(observer.look(&[pulse(1, 5)], at(129), at(129)).len(), 1);
    }
}
