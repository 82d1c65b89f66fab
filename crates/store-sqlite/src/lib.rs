//! The SQLite store: one writer thread with group commit, and WAL readers.
//!
//! The file is the only source of truth; nothing lives in memory only. Writes are durable when they are answered:
//! WAL with `synchronous=FULL`, acknowledged after COMMIT. A second process may use the same file.

mod access;
mod alerts;
mod backfill;
pub mod backup;
mod bulk;
mod chain;
mod checks;
mod claim;
mod control;
mod crew;
mod deliveries;
mod error;
mod executions;
mod finish;
mod fire;
mod flow_steps;
mod flows;
mod freeze;
mod grants;
mod holds;
mod jobs;
mod join;
mod keys;
mod limits;
mod log;
mod manifest;
mod migrate;
mod notify;
mod offers;
mod outbox;
mod policies;
mod prune;
mod queue;
mod reader;
mod readings;
mod records;
mod rows;
mod schedules;
mod serial;
mod sightings;
pub mod sql;
pub mod sql_target;
mod store;
mod transfer;
mod tx;
mod upkeep;
mod writer;

use crate::error::{is_busy, store_error};
use crate::log::Log;
use crate::reader::Readers;
use crate::tx::Tx;
use crate::writer::Writer;
use jiff::Timestamp;
use punctual_core::access::Change;
use punctual_core::id::IdSource;
use punctual_core::invalid::Invalid;
use punctual_core::store::{Clock, StoreError, StoreResult};
use punctual_core::upkeep::AppliedMigration;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use uuid::Uuid;

/// The oldest SQLite that does not lose data: before it, a WAL reset with several connections can corrupt the file.
const SQLITE_MIN: i32 = 3_051_003;

/// How long a connection waits for another process's write before it gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long whoever finds the file busy while it is made waits before the next try.
const WAL_RETRY: Duration = Duration::from_millis(2);

/// How many statements each connection keeps prepared; more than the store has.
const STATEMENTS_KEPT: usize = 256;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Where time comes from; the host's clock unless a test turns its own.
    pub clock: Arc<dyn Clock>,
    /// How many queries may run beside the writer.
    pub readers: usize,
    /// Where the random part of new ids begins to count; a random number, unless a simulation must see the same again.
    pub ids: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self { clock: Arc::new(HostClock), readers: 2, ids: None }
    }
}

/// The host's clock. A clock that goes back fires nothing twice: the ledger and `fired_through` see to that.
#[derive(Debug)]
struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A store in an SQLite file.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use punctual_core::{job::NewJob, store::Store, target::Target};
/// use punctual_store_sqlite::{SqliteOptions, SqliteStore};
///
/// let folder = tempfile::tempdir().unwrap();
/// let store = SqliteStore::open(&folder.path().join("app.db"), SqliteOptions::default())?;
/// let ids = store.enqueue_jobs(vec![NewJob::new(Target::command(["true"]))]).await?;
/// assert!(store.job(ids[0]).await?.is_some());
/// # Ok::<(), punctual_core::store::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct SqliteStore {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    ids: Arc<Mutex<IdSource>>,
    writer: Writer,
    readers: Readers,
    /// Reads what claims took, and nothing else: no question that takes long may keep a node from its jobs.
    claims: Readers,
    commits: Arc<Commits>,
    /// Rings when there may be new work.
    changed: watch::Sender<()>,
    /// Rings when something may be due earlier than before.
    plans: watch::Sender<()>,
    /// In whose name this handle changes things.
    change: Option<Arc<Change>>,
    migrated: Arc<[AppliedMigration]>,
}

/// What the database tells about its commits, just before each.
#[derive(Debug, Default)]
struct Commits {
    asked: AtomicU64,
    refused: AtomicBool,
}

impl SqliteStore {
    /// Opens a store by its address, `sqlite:PATH`, and makes the file if it is not there (A24).
    pub fn from_url(url: &str, options: SqliteOptions) -> StoreResult<Self> {
        let refused =
            |problem: &str| Invalid::new("database", problem).remedy("use sqlite:PATH, such as sqlite:app.db");
        let path = url.strip_prefix("sqlite:").ok_or_else(|| refused("is not an sqlite: address"))?;
        // Each connection would have a database of its own, and a durable store in memory is none.
        if path.is_empty() || path.starts_with(":memory:") {
            return Err(refused("names no file").into());
        }
        Self::open(Path::new(path), options)
    }

    /// Opens a store in a file, and makes it if it is not there.
    pub fn open(path: &Path, options: SqliteOptions) -> StoreResult<Self> {
        refuse_old_sqlite(rusqlite::version_number())?;
        let commits = Arc::new(Commits::default());
        let mut writer = writing_connection(path)?;
        let migrated = migrate::migrate(&writer, options.clock.now())?.into();
        watch_commits(&mut writer, &commits)?;
        let readers = (0..options.readers.max(1)).map(|_| reading_connection(path)).collect::<StoreResult<Vec<_>>>()?;
        let no_thread =
            |error: std::io::Error| StoreError::Unavailable(format!("a thread could not be started: {error}"));
        let (changed, plans) = (watch::Sender::new(()), watch::Sender::new(()));
        Ok(Self {
            path: path.to_owned(),
            clock: options.clock,
            ids: Arc::new(Mutex::new(IdSource::from_random(
                options.ids.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0),
            ))),
            writer: Writer::start(writer, Log::of(path), [changed.clone(), plans.clone()]).map_err(no_thread)?,
            readers: Readers::start(readers).map_err(no_thread)?,
            claims: Readers::start(vec![reading_connection(path)?]).map_err(no_thread)?,
            commits,
            changed,
            plans,
            change: None,
            migrated,
        })
    }

    /// What was done to the schema when this store was opened.
    pub fn migrated(&self) -> &[AppliedMigration] {
        &self.migrated
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes every COMMIT fail from now on, or not any more: for tests that show that nothing is acknowledged
    /// before its commit, and that a failed write changes nothing.
    #[doc(hidden)]
    pub fn refuse_commits(&self, on: bool) {
        self.commits.refused.store(on, Ordering::SeqCst);
    }

    /// How many commits this store has made: many writes share one.
    pub fn commits(&self) -> u64 {
        self.commits.asked.load(Ordering::SeqCst)
    }

    /// What the writing connection's settings are, as the database itself reports them.
    pub async fn durability(&self) -> StoreResult<Durability> {
        self.writer.write(read_durability).await
    }

    /// One verb: its own savepoint in a group, answered after the commit.
    async fn write<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
    {
        let (clock, ids, change) = (Arc::clone(&self.clock), Arc::clone(&self.ids), self.change.clone());
        self.writer
            .write(move |connection| {
                let mut ids = ids.lock().unwrap_or_else(PoisonError::into_inner);
                let mut tx = Tx::new(connection, &mut ids, clock.now());
                change.as_ref().map_or(Ok(()), |change| tx.refuse_repeated(change))?;
                let done = work(&mut tx)?;
                change.map_or(Ok(()), |change| tx.record(&change, &done))?;
                Ok(done)
            })
            .await
    }

    /// One verb after which there may be new work.
    async fn write_and_wake<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
    {
        let done = self.write(work).await?;
        self.ring();
        Ok(done)
    }

    /// One verb after which something may be due earlier than before.
    async fn write_plans<T, F>(&self, work: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
    {
        let done = self.write_and_wake(work).await?;
        self.ring_plans();
        Ok(done)
    }

    /// Wakes whoever waits for work in this process.
    fn ring(&self) {
        self.changed.send_replace(());
    }

    /// Wakes whoever fires in this process.
    fn ring_plans(&self) {
        self.plans.send_replace(());
    }

    /// One question, answered from one snapshot.
    async fn read<T, F>(&self, query: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StoreResult<T> + Send + 'static,
    {
        self.readers
            .read(move |connection| {
                connection.execute_batch("BEGIN").map_err(store_error)?;
                let answer = query(connection);
                connection.execute_batch("COMMIT").map_err(store_error)?;
                answer
            })
            .await
    }
}

/// The settings that decide whether an acknowledged write survives a power cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    /// `wal`.
    pub journal_mode: String,
    /// 2 is FULL.
    pub synchronous: i64,
    /// Whether references are checked.
    pub foreign_keys: bool,
}

fn read_durability(connection: &Connection) -> StoreResult<Durability> {
    let pragma = |name: &str| -> StoreResult<rusqlite::types::Value> {
        connection.pragma_query_value(None, name, |row| row.get(0)).map_err(store_error)
    };
    let number = |value: &rusqlite::types::Value| match value {
        rusqlite::types::Value::Integer(number) => *number,
        _ => -1,
    };
    let journal_mode = match pragma("journal_mode")? {
        rusqlite::types::Value::Text(mode) => mode,
        _ => String::new(),
    };
    Ok(Durability {
        journal_mode,
        synchronous: number(&pragma("synchronous")?),
        foreign_keys: number(&pragma("foreign_keys")?) == 1,
    })
}

fn refuse_old_sqlite(version: i32) -> StoreResult<()> {
    if version < SQLITE_MIN {
        return Err(StoreError::Unavailable(format!(
            "SQLite {version} can corrupt a file in WAL mode; build with the bundled one (3.51.3 or newer)"
        )));
    }
    Ok(())
}

fn writing_connection(path: &Path) -> StoreResult<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect(path, flags)?;
    let mode = enter_wal(&connection).map_err(store_error)?;
    if mode != "wal" {
        return Err(StoreError::Unavailable(format!(
            "the file system does not support WAL (journal mode is {mode}); put the database on a local disk"
        )));
    }
    let settings = [
        ("synchronous", "FULL"),
        ("foreign_keys", "ON"),
        ("journal_size_limit", "67108864"),
        // What a savepoint must remember is kept in memory; a temporary file would cost more than the work itself.
        ("temp_store", "MEMORY"),
    ];
    for (name, value) in settings {
        connection.pragma_update(None, name, value).map_err(store_error)?;
    }
    Ok(connection)
}

/// Switches the file to WAL, and says what mode it is in now.
///
/// SQLite waits for nobody while it turns from a reader of the file's first page into its writer, because two who did so
/// would wait for each other. Who is refused has let go, and tries again.
fn enter_wal(connection: &Connection) -> rusqlite::Result<String> {
    let give_up_at = Instant::now() + BUSY_TIMEOUT;
    loop {
        let switched = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
        match switched {
            Err(error) if is_busy(&error) && Instant::now() < give_up_at => std::thread::sleep(WAL_RETRY),
            done => return done,
        }
    }
}

fn reading_connection(path: &Path) -> StoreResult<Connection> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.pragma_update(None, "query_only", "ON").map_err(store_error)?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> StoreResult<Connection> {
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(store_error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Plans must not depend on the values that are bound: otherwise SQLite parses a statement anew for every value
    // that could decide whether a partial index fits, which costs four times the work itself.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
    Ok(connection)
}

fn watch_commits(connection: &mut Connection, commits: &Arc<Commits>) -> StoreResult<()> {
    let commits = Arc::clone(commits);
    let before_commit = move || {
        commits.asked.fetch_add(1, Ordering::SeqCst);
        // True turns the COMMIT into a ROLLBACK with an error.
        commits.refused.load(Ordering::SeqCst)
    };
    connection.commit_hook(Some(before_commit)).map_err(store_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c01_an_sqlite_that_loses_data_is_refused() {
        assert!(refuse_old_sqlite(3_051_002).is_err());
        assert!(refuse_old_sqlite(3_046_000).is_err());
        assert!(refuse_old_sqlite(rusqlite::version_number()).is_ok());
    }

    #[test]
    fn a24_a_store_is_made_from_its_address_alone() {
        for url in ["", "sqlite:", "sqlite::memory:", "postgres://x", "app.db"] {
            assert!(
                matches!(SqliteStore::from_url(url, SqliteOptions::default()), Err(StoreError::Invalid(_))),
                "{url}"
            );
        }
    }
}
