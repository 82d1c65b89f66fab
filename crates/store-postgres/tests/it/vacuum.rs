//! What claimed jobs leave behind: it is cleared away while they are claimed, by those who may.

use crate::harness::{Own, done, node};
use crate::roles::Login;
use punctual_core::id::ClaimId;
use punctual_core::job::NewJob;
use punctual_core::store::{ClaimRequest, Lease, Store};
use punctual_core::target::Target;
use punctual_store_postgres::{PostgresStore, sql};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::WORK;
use uuid::Uuid;

const BATCH: usize = 100;

/// Some jobs from their beginning to their end.
async fn work(store: &PostgresStore, lease: Lease) {
    let jobs = (0..BATCH).map(|_| NewJob::new(Target::task("work"))).collect();
    store.enqueue_jobs(jobs).await.unwrap();
    let (claim_id, job_types) = (ClaimId(Uuid::new_v4()), vec![WORK.to_owned()]);
    let request = ClaimRequest { lease, claim_id, queues: Vec::new(), job_types, limit: BATCH };
    let claimed = store.claim_jobs_if_leased(request).await.unwrap();
    assert_eq!(claimed.len(), BATCH);
    let ends = claimed.iter().map(|claimed| done(claimed.job.id)).collect();
    store.finish_runs_if_leased(lease, ends).await.unwrap();
}

#[test]
fn e08_the_tables_that_jobs_go_through_are_vacuumed_while_they_do_and_nothing_is_lost() {
    block_on(async {
        let own = Own::with(|options| options.vacuum_after = 2 * BATCH).await;
        let lease = own.store.register_node(node("worker")).await.unwrap();
        let vacuums = "SELECT least(pg_stat_get_vacuum_count('punctual_internal.queue'::regclass),
                                    pg_stat_get_vacuum_count('punctual_internal.running'::regclass))";
        let mut rounds = 0;
        while own.number(vacuums).await < 2 {
            work(&own.store, lease).await;
            rounds += 1;
        }
        let left =
            "SELECT (SELECT count(*) FROM punctual_internal.queue) + (SELECT count(*) FROM punctual_internal.running)";
        assert_eq!(own.number(left).await, 0);
        let runs = own.number("SELECT count(*) FROM punctual_internal.runs").await;
        assert_eq!(usize::try_from(runs), Ok(rounds * BATCH));
    });
}

#[test]
fn a25_only_who_owns_the_tables_vacuums_them() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.apply_roles().await.unwrap();
        let statement = sql::ALL.iter().find(|(name, _)| *name == "dead_rows").expect("it is listed").1;
        let owner = own.database.connect().await;
        assert_eq!(owner.query(statement, &[&0_i64]).await.unwrap().len(), 5);
        assert_eq!(owner.query(statement, &[&1_000_000_i64]).await.unwrap().len(), 0, "not yet");
        let login = Login::of("punctual_worker", &own.database).await;
        let client = login.connect().await;
        assert_eq!(client.query(statement, &[&0_i64]).await.unwrap().len(), 0);
        drop(client);
        login.drop_from(&own.database).await;
    });
}
