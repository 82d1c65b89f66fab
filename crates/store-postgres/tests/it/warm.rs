//! A store that gets ready: on as many connections as a busy node uses, and never on all of them.

use crate::harness::Own;
use punctual_core::readings::Readings;
use punctual_core::store::Store;
use punctual_testkit::harness::block_on;
use tokio_postgres::Client;

/// How many connections are open and how many of them nobody uses, after a store with so many got ready.
async fn warmed(pool_size: usize) -> (usize, usize) {
    let own = Own::with(|options| options.pool_size = pool_size).await;
    own.store.warm_up().await.expect("it gets ready");
    let figures = own.store.pool_figures().expect("there is a pool");
    (figures.open, figures.idle)
}

/// The store's connections to the database, and of each when it did something last.
async fn connections(client: &Client) -> Vec<String> {
    let find = "SELECT pid || ' ' || state_change FROM pg_stat_activity WHERE datname = current_database()
                  AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY 1";
    client.query(find, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn e07_what_is_ready_is_left_alone_and_what_took_its_place_gets_ready() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let client = own.database.connect().await;
        own.store.warm_up().await.unwrap();
        let ready = connections(&client).await;
        own.store.warm_up().await.unwrap();
        assert_eq!(connections(&client).await, ready, "it asks nothing twice");
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
                     AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        client.execute(end, &[]).await.unwrap();
        while !connections(&client).await.is_empty() {}
        // Connections that broke are noticed when they are used; the last of them may still be tried in vain.
        while own.store.warm_up().await.is_err() {}
        let find = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                      AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND query = 'COMMIT'";
        let ready: i64 = client.query_one(find, &[]).await.unwrap().get(0);
        assert_eq!(ready, 6, "each has come to the end of what makes it ready");
    });
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
