//! A store that gets ready: on as many connections as a busy node uses, and never on all of them.

use crate::harness::Own;
use punctual_core::readings::Readings;
use punctual_core::store::Store;
use punctual_testkit::harness::block_on;

/// How many connections are open and how many of them nobody uses, after a store with so many got ready.
async fn warmed(pool_size: usize) -> (usize, usize) {
    let own = Own::with(|options| options.pool_size = pool_size).await;
    own.store.warm_up().await.expect("it gets ready");
    let figures = own.store.pool_figures().expect("there is a pool");
    (figures.open, figures.idle)
}

#[test]
fn e07_what_a_busy_node_uses_is_ready_and_the_rest_is_left_to_others() {
    block_on(async {
        assert_eq!(warmed(8).await, (6, 6), "two are left");
        assert_eq!(warmed(20).await, (6, 6), "no more than are used");
        assert_eq!(warmed(2).await.0, 1, "the one that made the schema, or the one after it");
        assert_eq!(warmed(1).await.0, 1);
    });
}
