//! Behind pgbouncer in transaction mode: no session state, no named statements, transaction locks only.

use crate::harness::{broken, done, fresh_database, node, options};
use punctual_core::id::JobId;
use punctual_core::store::{Store, StoreResult};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::VirtualClock;
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::{Database, PgBouncer};
use punctual_testkit::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One client: a store of its own through the pooler, which does something of everything.
async fn client(url: String, clock: Arc<VirtualClock>, number: usize) -> StoreResult<Vec<JobId>> {
    let options = PostgresOptions { pool_size: 2, ..options(clock) };
    let store = PostgresStore::connect(&url, options).await?;
    let lease = store.register_node(node(&format!("n{number}"))).await?;
    let schedule = store.create_schedule(minutely(&format!("s{number}"))).await?;
    store.pause_schedule(schedule.id, None, None).await?;
    store.resume_schedule(schedule.id).await?;
    let mut ran = Vec::new();
    for round in 0..5 {
        store.enqueue_jobs(vec![job(), serial_job(&format!("k{}", round % 2)), retried_job(1, SHORTEST_WAIT)]).await?;
        store.heartbeat_if_leased(lease).await?;
        let claimed = store.claim_jobs_if_leased(claim_request(lease, 5)).await?;
        let ids: Vec<JobId> = claimed.iter().map(|claimed| claimed.job.id).collect();
        let ends = ids.iter().map(|id| if round % 2 == 0 { done(*id) } else { broken(*id) }).collect();
        store.finish_runs_if_leased(lease, ends).await?;
        ran.extend(ids);
    }
    store.fire_due(Some(lease.node_id), ALL).await?;
    store.leave_if_leased(lease).await?;
    Ok(ran)
}

async fn twenty_clients(database: Database, pooler: PgBouncer) {
    let clock = Arc::new(VirtualClock::new());
    let tasks: Vec<_> = (0..20).map(|n| tokio::spawn(client(pooler.url().to_owned(), clock.clone(), n))).collect();
    let mut ran = Vec::new();
    for task in tasks {
        ran.extend(task.await.unwrap().expect("a client notices nothing of the pooler"));
    }
    assert_eq!(ran.len(), ran.iter().collect::<BTreeSet<_>>().len(), "no job was handed out twice");
    let admin = database.connect().await;
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database
                WHERE datname = current_database())";
    assert_eq!(admin.query_one(held, &[]).await.unwrap().get::<_, i64>(0), 0, "no lock outlives its transaction");
    let named = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert!(admin.query_one(named, &[]).await.unwrap().get::<_, i64>(0) <= 2, "two connections were enough");
}

#[test]
fn c07_twenty_clients_share_two_connections_of_a_pooler() {
    block_on(async {
        let database = fresh_database().await;
        let pooler = PgBouncer::start(&database, 2);
        twenty_clients(database, pooler).await;
    });
}

#[test]
fn c07_a_pooler_that_swallows_settings_is_noticed_too() {
    block_on(async {
        let database = fresh_database().await;
        let pooler = PgBouncer::swallowing_settings(&database, 2);
        twenty_clients(database, pooler).await;
    });
}
