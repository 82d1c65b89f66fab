//! How the SQLite store is opened for the shared tests: a file of its own for every world.

use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::store::{Clock, Store};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use punctual_testkit::harness::fast_folder;
use punctual_testkit::{Backing, Faults, Harness, RawSql, StoreKind, World};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

/// Opens SQLite files in temporary folders.
pub struct SqliteHarness;

#[async_trait]
impl Harness for SqliteHarness {
    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    async fn open(&self) -> World {
        let folder = tempfile::tempdir_in(fast_folder()).expect("a temporary folder can be made");
        let path = folder.path().join("punctual.db");
        let open = OpenStores::default();
        let backing = File { _folder: folder, path: path.clone(), open: open.clone() };
        let raw = Prompt { connection: Mutex::new(None), path };
        World::new(self.kind(), Box::new(backing), Box::new(raw), Box::new(open)).await
    }
}

/// A file in a folder that goes away with it.
struct File {
    _folder: TempDir,
    path: PathBuf,
    open: OpenStores,
}

#[async_trait]
impl Backing for File {
    async fn open(&self, clock: Arc<dyn Clock>, ids: Option<u64>) -> Arc<dyn Store> {
        let options = SqliteOptions { clock, ids, ..SqliteOptions::default() };
        let store = Arc::new(SqliteStore::open(&self.path, options).expect("the file can be opened"));
        locked(&self.open.0).push(Arc::downgrade(&store));
        store
    }
}

/// The stores that are open, held weakly so that closing one really closes it.
#[derive(Clone, Default)]
struct OpenStores(Arc<Mutex<Vec<Weak<SqliteStore>>>>);

#[async_trait]
impl Faults for OpenStores {
    async fn refuse_commits(&self, on: bool) {
        for store in locked(&self.0).iter().filter_map(Weak::upgrade) {
            store.refuse_commits(on);
        }
    }
}

/// A second connection, as `sqlite3` has one.
struct Prompt {
    connection: Mutex<Option<Connection>>,
    path: PathBuf,
}

impl Prompt {
    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, String> {
        let mut connection = locked(&self.connection);
        if connection.is_none() {
            let opened = Connection::open(&self.path).map_err(|error| error.to_string())?;
            opened.busy_timeout(Duration::from_secs(30)).map_err(|error| error.to_string())?;
            *connection = Some(opened);
        }
        let connection = connection.as_ref().ok_or("it was opened")?;
        work(connection).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl RawSql for Prompt {
    async fn execute(&self, sql: &str) -> Result<u64, String> {
        self.with(|connection| connection.execute(sql, []))
            .and_then(|rows| u64::try_from(rows).map_err(|error| error.to_string()))
    }

    async fn query_i64(&self, sql: &str) -> Result<Option<i64>, String> {
        self.with(|connection| connection.query_row(sql, [], |row| row.get(0)))
    }

    async fn query_text(&self, sql: &str) -> Result<Option<String>, String> {
        self.with(|connection| connection.query_row(sql, [], |row| row.get(0)))
    }

    fn table(&self, name: &str) -> String {
        format!("punctual_{name}")
    }

    fn uuid_literal(&self, id: Uuid) -> String {
        format!("X'{}'", id.simple())
    }

    fn time_literal(&self, at: Timestamp) -> String {
        at.as_microsecond().to_string()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
