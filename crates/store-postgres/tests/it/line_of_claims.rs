//! Claims that come at once: the second travels behind the first, on its connection.

use crate::harness::{Own, node, until_waiting};
use punctual_core::limits::Claimed;
use punctual_core::readings::Readings;
use punctual_core::store::{Lease, Store, StoreError, StoreResult};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::Poll;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

type Claim = Pin<Box<dyn Future<Output = StoreResult<Claimed>> + Send>>;

/// What claims share and who pauses a queue takes for himself: while it is taken, claims wait inside the server.
const GATE: &str = "SELECT pg_advisory_lock(7815263002)";

/// A store of two connections with a node and ten jobs, of which a first claim waits inside the server.
struct World {
    own: Own,
    lease: Lease,
    /// Lets claims go on when it is dropped.
    gate: Client,
    first: JoinHandle<StoreResult<Claimed>>,
}

async fn open() -> World {
    let own = Own::with(|options| options.pool_size = 2).await;
    let lease = own.store.register_node(node("worker")).await.unwrap();
    own.store.enqueue_jobs(vec![job(); 10]).await.unwrap();
    let gate = own.database.connect().await;
    gate.execute(GATE, &[]).await.unwrap();
    let first = tokio::spawn(begin(&own, lease).await);
    until_waiting(&own, 1).await;
    World { own, lease, gate, first }
}

/// A claim of four that was begun.
async fn begin(own: &Own, lease: Lease) -> Claim {
    let store = own.store.clone();
    let mut claim: Claim = Box::pin(async move { store.claim_jobs_if_leased(claim_request(lease, 4)).await });
    go_on(&mut claim).await;
    claim
}

/// Lets a claim do what it can without waiting.
async fn go_on(claim: &mut Claim) {
    std::future::poll_fn(|cx| {
        assert!(claim.as_mut().poll(cx).is_pending(), "nobody claims while the gate is closed");
        Poll::Ready(())
    })
    .await;
}

#[test]
fn c07_a_second_claim_travels_behind_the_first_and_a_third_on_a_connection_of_its_own() {
    block_on(async {
        let World { own, lease, gate, first } = open().await;
        let second = begin(&own, lease).await;
        // Both are on their way, and one of the two connections is free.
        assert_eq!(own.store.pool_figures().expect("there is a pool").waiting, 0);
        assert!(own.store.queue("default").await.unwrap().is_some());
        let second = tokio::spawn(second);
        let third = tokio::spawn(begin(&own, lease).await);
        until_waiting(&own, 2).await;
        drop(gate);
        let mut claimed = Vec::new();
        for claim in [first, second, third] {
            claimed.extend(claim.await.unwrap().unwrap().into_iter().map(|claimed| claimed.job.id));
        }
        let different: BTreeSet<_> = claimed.iter().collect();
        assert_eq!((different.len(), claimed.len()), (10, 10), "all jobs, and each went to one of them");
    });
}

#[test]
fn c12_when_their_connection_breaks_both_claims_are_told_and_the_next_one_has_another() {
    block_on(async {
        let World { own, lease, gate, first } = open().await;
        let second = tokio::spawn(begin(&own, lease).await);
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        assert_eq!(own.number(end).await, 1);
        for claim in [first, second] {
            let told = claim.await.unwrap();
            assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
        }
        drop(gate);
        let claimed = own.store.claim_jobs_if_leased(claim_request(lease, 20)).await.unwrap();
        assert_eq!(claimed.len(), 10);
    });
}
