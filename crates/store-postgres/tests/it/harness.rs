//! How the PostgreSQL store is opened for the shared tests: a database of its own for every world.

use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::id::JobId;
use punctual_core::run::ErrorCode;
use punctual_core::store::{Clock, FinishResult, FinishedRun, NewNode, Store};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_testkit::postgres::{Database, PostgresFaults, PostgresPrompt};
use punctual_testkit::prelude::WORK;
use punctual_testkit::{Backing, Harness, StoreKind, VirtualClock, World};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
        World::new(self.kind(), Box::new(Data { database }), Box::new(raw), Box::new(faults)).await
    }
}

/// What the template is made of: all migrations, in their order.
pub fn schema() -> String {
    migrations().iter().map(|path| std::fs::read_to_string(path).expect("a migration can be read")).collect()
}

/// The files of the migrations, in their order.
pub fn migrations() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).expect("there are migrations");
    let mut files: Vec<PathBuf> = folder.map(|file| file.expect("the folder can be read").path()).collect();
    files.sort_unstable();
    files
}

/// A database with the schema and nothing in it.
pub async fn fresh_database() -> Database {
    Database::from_template(&schema(), |url| async move {
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
    async fn open(&self, clock: Arc<dyn Clock>, ids: Option<u64>) -> Arc<dyn Store> {
        let store = PostgresStore::connect(&self.database.url(), PostgresOptions { ids, ..options(clock) }).await;
        Arc::new(store.expect("the database can be opened"))
    }
}

/// A store on a fresh database, for tests of PostgreSQL alone.
pub struct Own {
    /// The time, turned by hand.
    pub clock: Arc<VirtualClock>,
    /// The database.
    pub database: Database,
    /// The store on it.
    pub store: PostgresStore,
}

impl Own {
    /// A fresh database, and a store on it that was opened with some options changed.
    pub async fn with(change: impl FnOnce(&mut PostgresOptions)) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let database = fresh_database().await;
        let mut options = options(clock.clone());
        change(&mut options);
        let store = PostgresStore::connect(&database.url(), options).await.expect("the database can be opened");
        Self { clock, database, store }
    }

    /// A number that the database says.
    pub async fn number(&self, sql: &str) -> i64 {
        let client = self.database.connect().await;
        client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }
}

/// What makes a connection plan as the store's own do.
pub fn own_settings() -> String {
    let settings = punctual_store_postgres::sql::SETTINGS.split("-c ").filter(|setting| !setting.is_empty());
    settings.map(|setting| format!("SET {setting}")).collect::<Vec<_>>().join(";")
}

/// A node that can run what tests make.
pub fn node(name: &str) -> NewNode {
    NewNode { name: name.to_owned(), offers: vec![WORK.to_owned()] }
}

/// The report of a run that did its work.
pub fn done(id: JobId) -> FinishedRun {
    FinishedRun::completed(id)
}

/// The report of a run that did not.
pub fn broken(id: JobId) -> FinishedRun {
    FinishedRun::failed(id, ErrorCode::TargetError, "it broke")
}

/// The retry that an answer names.
pub fn retry_of(result: &FinishResult) -> JobId {
    match result {
        FinishResult::Closed { retry: Some(id) } => *id,
        other => panic!("expected a retry, got {other:?}"),
    }
}

/// Done when the store, on this thread, has logged some words.
pub fn until_told(words: &'static str) -> impl Future<Output = ()> {
    Words::listen(words).come()
}

/// How often the store, on this thread, has logged some words.
pub struct Words {
    told: tokio::sync::watch::Receiver<usize>,
    _guard: tracing::subscriber::DefaultGuard,
}

impl Words {
    /// Counts from now on.
    pub fn listen(words: &'static str) -> Self {
        let (tell, told) = tokio::sync::watch::channel(0);
        Self { told, _guard: tracing::subscriber::set_default(Log { words, tell }) }
    }

    /// Done when they have come once; listens until then.
    async fn come(mut self) {
        self.told.wait_for(|told| *told > 0).await.expect("the log is there");
    }

    /// How often until now.
    pub fn count(&self) -> usize {
        *self.told.borrow()
    }
}

/// Waits until so many connections of the database wait for a lock.
pub async fn until_waiting(own: &Own, wanted: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for _ in 0..1000 {
        if own.number(waiting).await >= wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} wait for a lock, and not {wanted}", own.number(waiting).await);
}

/// A log that waits for words.
struct Log {
    words: &'static str,
    tell: tokio::sync::watch::Sender<usize>,
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("punctual")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Words(String);
        impl tracing::field::Visit for Words {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                let _never_full = write!(self.0, "{value:?}");
            }
        }
        let mut words = Words(String::new());
        event.record(&mut words);
        if words.0.contains(self.words) {
            self.tell.send_modify(|told| *told += 1);
        }
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}
