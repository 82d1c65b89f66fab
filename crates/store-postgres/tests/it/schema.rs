//! The schema: made once by whoever comes first, refused when it is too new, and closed to roles that may not.

use crate::harness::{Own, done, fresh_database, node, options};
use jiff::SignedDuration;
use punctual_core::offers::Offers;
use punctual_core::store::{Clock, Retention, Store, StoreError};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::VirtualClock;
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::Database;
use punctual_testkit::prelude::*;
use std::sync::Arc;

#[test]
fn c01_many_who_migrate_at_once_make_one_schema() {
    block_on(async {
        let database = Database::empty().await;
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let url = database.url();
                tokio::spawn(async move { PostgresStore::connect(&url, PostgresOptions::default()).await.map(|_| ()) })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().expect("whoever comes second finds the work done");
        }
        let client = database.connect().await;
        let applied = client.query_one("SELECT count(*) FROM punctual_internal.migrations", &[]).await.unwrap();
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).unwrap().count();
        assert_eq!(usize::try_from(applied.get::<_, i64>(0)), Ok(files), "each is applied once");
        let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await.unwrap();
        assert_eq!(store.enqueue_jobs(vec![job()]).await.map(|made| made.len()), Ok(1));
    });
}

#[test]
fn c01_an_old_program_refuses_a_newer_breaking_schema_and_no_other() {
    block_on(async {
        let database = fresh_database().await;
        let client = database.connect().await;
        let url = database.url();
        let open = || PostgresStore::connect(&url, options(Arc::new(VirtualClock::new())));
        let newer = "INSERT INTO punctual_internal.migrations (number, name, breaking) VALUES";
        client.batch_execute(&format!("{newer} (900, 'an_index', false)")).await.unwrap();
        assert!(open().await.is_ok(), "what does not break is no reason to refuse");
        client.batch_execute(&format!("{newer} (901, 'other_tables', true)")).await.unwrap();
        match open().await.map(|_| ()) {
            Err(StoreError::SchemaTooNew { found: 901, name, known: 1..900 }) => assert_eq!(name, "other_tables"),
            other => panic!("expected a refusal, got {other:?}"),
        }
    });
}

#[test]
fn c02_documents_come_back_byte_for_byte_and_text_compares_bytewise() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let odd = r#"{ "b" :1.0e+2,"a": [ 12345678901234567890.10 ,"\u00e9"],"b":null }"#;
        let spec = punctual_core::job::NewJob { input: json(odd), ..job() };
        let id = own.store.enqueue_jobs(vec![spec]).await.unwrap()[0];
        assert_eq!(own.store.job(id).await.unwrap().unwrap().job.spec.input.as_str(), odd);
        let collations = "SELECT count(*) FROM information_schema.columns
                          WHERE table_schema = 'punctual_internal' AND data_type = 'text' AND table_name <> 'migrations'
                            AND collation_name IS DISTINCT FROM 'C'";
        assert_eq!(own.number(collations).await, 0);
    });
}

#[test]
fn a25_a_worker_can_do_its_work_and_change_no_ledger() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.apply_roles().await.unwrap();
        own.store.apply_roles().await.expect("twice changes nothing");
        let as_worker = format!("{}?options=-c%20role%3Dpunctual_worker", own.database.url());
        let worker = PostgresStore::connect(&as_worker, options(own.clock.clone())).await.unwrap();
        let lease = worker.register_node(node("w")).await.unwrap();
        worker.create_schedule(minutely("fires")).await.unwrap();
        own.clock.advance(mins(1));
        worker.enqueue_jobs(vec![serial_job("k"), retried_job(3, SHORTEST_WAIT)]).await.unwrap();
        let keyed = punctual_core::job::NewJob { job_key: Some(punctual_core::job_key::JobKey::new("k")), ..job() };
        worker.enqueue_jobs(vec![keyed]).await.unwrap();
        worker.settle_offers(ALL).await.unwrap();
        assert_eq!(worker.fire_due(None, ALL).await.unwrap().jobs.len(), 1);
        let claimed = worker.claim_jobs_if_leased(claim_request(lease, ALL)).await.unwrap();
        let ends = claimed.iter().map(|claimed| done(claimed.job.id)).collect();
        worker.finish_runs_if_leased(lease, ends).await.unwrap();
        own.clock.advance(SignedDuration::from_hours(1));
        let now = own.clock.now();
        let retention = Retention::before(now, 1);
        assert_eq!(worker.prune_history(retention).await.unwrap().jobs, 1);
        let client = own.database.connect().await;
        for (role, refused) in [
            ("punctual_worker", "UPDATE punctual_internal.jobs SET priority = 1"),
            ("punctual_worker", "UPDATE punctual_internal.runs SET outcome = 'completed'"),
            ("punctual_worker", "TRUNCATE punctual_internal.slots"),
            ("punctual_worker", "DROP TABLE punctual_internal.jobs"),
            ("punctual_worker", "CREATE TABLE punctual_internal.mine ()"),
            ("punctual_worker", "SELECT virtual_key FROM punctual_internal.billing_accounts"),
            ("punctual_worker", "DELETE FROM punctual_internal.grants"),
            ("punctual_admin", "TRUNCATE punctual_internal.jobs"),
            ("punctual_client", "SELECT * FROM punctual_internal.jobs"),
            ("punctual_client", "SELECT punctual_internal.drop_old_jobs(now(), now(), 0, 0)"),
            ("punctual_reader", "SELECT * FROM punctual_internal.runs"),
        ] {
            let tried = client.batch_execute(&format!("BEGIN; SET LOCAL ROLE {role}; {refused}")).await;
            assert!(tried.is_err(), "{role} may {refused}");
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        // Even the owner: the triggers do not ask who it is.
        for refused in ["UPDATE punctual_internal.jobs SET priority = 1", "TRUNCATE punctual_internal.jobs"] {
            assert!(client.batch_execute(refused).await.is_err(), "{refused}");
        }
    });
}
