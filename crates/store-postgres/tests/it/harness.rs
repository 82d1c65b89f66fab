//! How the PostgreSQL store is opened for the shared tests: a database of its own for every world.

use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::store::{Clock, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PostgresFaults, PostgresPrompt};
use punctual_testkit::{Backing, Harness, StoreKind, VirtualClock, World};
use std::sync::Arc;

/// What the template is made of.
const SCHEMA: &str = include_str!("../../migrations/0001_ground.sql");

/// Opens databases on the throw-away server.
pub struct PostgresHarness;

#[async_trait]
impl Harness for PostgresHarness {
    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    async fn open(&self) -> World {
        let database = Arc::new(fresh_database().await);
        let raw = PostgresPrompt::new(Arc::clone(&database));
        let faults = PostgresFaults::new(Arc::clone(&database));
        World::new(Box::new(Data { database }), Box::new(raw), Box::new(faults)).await
    }
}

/// A database with the schema and nothing in it.
pub async fn fresh_database() -> Database {
    Database::from_template(SCHEMA, |url| async move {
        PostgresStore::connect(&url, options(Arc::new(VirtualClock::new()))).await.expect("the schema can be made");
    })
    .await
}

/// A clock turned by hand, and partitions that hold whatever a case does.
pub fn options(clock: Arc<dyn Clock>) -> PostgresOptions {
    let partition_span = SignedDuration::from_hours(24 * 365 * 10);
    PostgresOptions { clock: Some(clock), partition_span, ..PostgresOptions::default() }
}

/// A database that goes away with it.
struct Data {
    database: Arc<Database>,
}

#[async_trait]
impl Backing for Data {
    async fn open(&self, clock: Arc<dyn Clock>) -> Arc<dyn Store> {
        let store = PostgresStore::connect(&self.database.url(), options(clock)).await;
        Arc::new(store.expect("the database can be opened"))
    }
}
