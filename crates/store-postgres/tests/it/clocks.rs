//! The database's clock decides, and nobody else's (D02).

use crate::harness::{Own, fresh_database};
use jiff::{SignedDuration, Timestamp};
use punctual_core::store::Store;
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::harness::block_on;
use punctual_testkit::prelude::*;

#[test]
fn d02_without_a_turned_clock_the_databases_own_decides() {
    block_on(async {
        let database = fresh_database().await;
        let store = PostgresStore::connect(&database.url(), PostgresOptions::default()).await.unwrap();
        let client = database.connect().await;
        let now = || async {
            let row = client.query_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint", &[]).await;
            Timestamp::from_microsecond(row.unwrap().get(0)).unwrap()
        };
        let before = now().await;
        let id = store.enqueue_jobs(vec![job()]).await.unwrap()[0];
        let schedule = store.create_schedule(every("clock", 3600)).await.unwrap();
        let told = store.now().await.unwrap();
        let after = now().await;
        let made = store.job(id).await.unwrap().unwrap().job.created_at;
        for at in [made, schedule.created_at, told] {
            assert!(before <= at && at <= after, "{before} <= {at} <= {after}");
        }
        // The id carries the same instant: 48 bits of milliseconds, 12 bits of quarter microseconds.
        let bits = id.0.as_u128() >> 64;
        let micros = (bits >> 16) * 1000 + (bits & 0xfff) / 4;
        assert_eq!(i128::try_from(micros).unwrap(), i128::from(made.as_microsecond()));
        let due = store.next_due_in().await.unwrap().unwrap();
        assert!(due <= secs(3600) && due > secs(3590), "{due}");
    });
}

#[test]
fn d02_an_id_is_the_same_whether_the_program_or_the_database_makes_it() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        own.clock.advance(SignedDuration::from_micros(123_456_789));
        let id = own.store.enqueue_jobs(vec![job()]).await.unwrap()[0];
        let made_at = own.store.job(id).await.unwrap().unwrap().job.created_at;
        let mut bits = [0; 8];
        bits.copy_from_slice(&id.as_bytes()[8..]);
        assert_eq!(punctual_core::id::JobId::at(made_at, bits), id);
        assert_eq!(id.0.get_version_num(), 7);
        assert_eq!(id.0.get_variant(), uuid::Variant::RFC4122);
    });
}
