//! Old snapshots that only PostgreSQL has: of others, seen by a role that may not look at them, and prepared ones.

use crate::harness::{Own, options};
use crate::roles::Login;
use jiff::Timestamp;
use punctual_core::checks::{Check, Checks, Finding};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::VirtualClock;
use punctual_testkit::harness::block_on;
use punctual_testkit::postgres::{Database, PrivateServer};
use std::sync::Arc;

/// As many transactions as make a snapshot old whose age nobody tells, and a dead row from each.
const CHURN: &str = "
    DO $$ BEGIN
      FOR i IN 1..100001 LOOP
        BEGIN
          INSERT INTO punctual_internal.schedule_live VALUES (gen_random_uuid(), gen_random_uuid());
        EXCEPTION WHEN division_by_zero THEN NULL;
        END;
      END LOOP;
    END $$;
    DELETE FROM punctual_internal.schedule_live";

async fn found(store: &PostgresStore) -> Vec<Finding> {
    store.run_quick_checks(10).await.unwrap()
}

#[test]
fn c17_a_role_that_may_not_look_at_others_is_told_of_them_without_what_they_do() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.store.apply_roles().await.unwrap();
        let (login, others) = (Login::of("punctual_worker", &own.database).await, own.database.connect().await);
        let store = PostgresStore::connect(&login.url, options(own.clock.clone())).await.unwrap();
        others.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        let session: i32 = others.query_one("SELECT pg_backend_pid(), 'a secret'", &[]).await.unwrap().get(0);
        assert_eq!(found(&store).await, []);
        let busy = own.database.connect().await;
        busy.batch_execute(CHURN).await.unwrap();
        // The server counts what died a little later, when a session that is idle has the time, or at its next statement.
        while found(&store).await.is_empty() {
            busy.batch_execute("SELECT 1").await.unwrap();
        }
        let findings = found(&store).await;
        let subject = findings[0].subjects.concat();
        let expected =
            [format!("session {session} ("), " transactions, with ".into(), " dead rows in schedule_live: ".into()];
        assert!(expected.iter().all(|words| subject.contains(words)), "{subject}");
        assert!(!subject.contains("secret") && !subject.contains("idle"), "{subject}");
        others.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(found(&store).await, []);
        drop(store);
        login.drop_from(&own.database).await;
    });
}

#[test]
fn c17_a_transaction_that_was_prepared_and_forgotten_is_found() {
    block_on(async {
        let mut server = PrivateServer::start(false);
        let database = Database::empty_on(&server).await;
        // It takes effect when the server starts.
        database.connect().await.batch_execute("ALTER SYSTEM SET max_prepared_transactions = 2").await.unwrap();
        server.stop_immediately();
        server.start_again();
        let clock = Arc::new(VirtualClock::new());
        let options = PostgresOptions { clock: Some(clock.clone()), ..PostgresOptions::default() };
        let store = PostgresStore::connect(&database.url(), options).await.unwrap();
        let client = database.connect().await;
        let forget = "BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'ada''s own'";
        client.batch_execute(forget).await.unwrap();
        let read = "SELECT (extract(epoch FROM prepared) * 1000000)::bigint FROM pg_prepared_xacts";
        let since: i64 = client.query_one(read, &[]).await.unwrap().get(0);
        let hour = 3_600_000_000;
        clock.set(Timestamp::from_microsecond(since + hour).unwrap());
        assert_eq!(found(&store).await, []);
        clock.set(Timestamp::from_microsecond(since + hour + 1).unwrap());
        let findings = found(&store).await;
        assert_eq!((findings.len(), findings[0].check), (1, Check::OldSnapshot));
        let (_, remedy) = findings[0].subjects[0].split_once(" dead rows in ").unwrap();
        let (_, remedy) = remedy.split_once(": ").unwrap();
        assert_eq!(remedy, "ROLLBACK PREPARED 'ada''s own'");
        client.batch_execute(remedy).await.unwrap();
        assert_eq!(found(&store).await, [], "what it says ends it");
    });
}
