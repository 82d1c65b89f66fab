//! How a store is opened for tests, reopened, tampered with and made to fail.

use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::store::{Clock, Store};
use punctual_core::virtual_clock::VirtualClock;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uuid::Uuid;

/// Which store a harness opens; a case that concerns one store only names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// The embedded store.
    Sqlite,
    /// The shared one.
    Postgres,
}

/// Makes a fresh, empty world for every case.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Which store this is.
    fn kind(&self) -> StoreKind;

    /// Opens an empty store on data of its own.
    async fn open(&self) -> World;
}

/// The data behind a store: it stays when the store is closed.
#[async_trait]
pub trait Backing: Send + Sync {
    /// Opens the store on this data, as one more process would; `ids` says where new ids begin to count.
    async fn open(&self, clock: Arc<dyn Clock>, ids: Option<u64>) -> Arc<dyn Store>;
}

/// The database as somebody sees it who comes with `sqlite3` or `psql`.
#[async_trait]
pub trait RawSql: Send + Sync {
    /// Runs one statement; says how many rows it changed, or what the database answered when it refused.
    async fn execute(&self, sql: &str) -> Result<u64, String>;

    /// The first column of the first row as a number.
    async fn query_i64(&self, sql: &str) -> Result<Option<i64>, String>;

    /// The first column of the first row as text.
    async fn query_text(&self, sql: &str) -> Result<Option<String>, String>;

    /// The full name of a table: `punctual_<name>` on SQLite, `punctual_internal.<name>` on PostgreSQL.
    fn table(&self, name: &str) -> String;

    /// An id as the store writes it: a 16-byte BLOB on SQLite, a `uuid` on PostgreSQL.
    fn uuid_literal(&self, id: Uuid) -> String;

    /// A time as the store writes it: microseconds on SQLite, a `timestamptz` on PostgreSQL.
    fn time_literal(&self, at: Timestamp) -> String;
}

/// Faults that a test can switch on.
#[async_trait]
pub trait Faults: Send + Sync {
    /// While on, every COMMIT of a transaction that wrote something fails, after all its statements succeeded.
    async fn refuse_commits(&self, on: bool);
}

/// One store under test with everything that surrounds it.
pub struct World {
    /// Which store it is.
    pub kind: StoreKind,
    /// The time, turned by hand.
    pub clock: Arc<VirtualClock>,
    /// The way round the store.
    pub raw: Box<dyn RawSql>,
    /// What can go wrong.
    pub faults: Box<dyn Faults>,
    backing: Box<dyn Backing>,
    // `None` only while it is being reopened: the old one must be gone before the new one comes.
    store: Option<Arc<dyn Store>>,
}

impl World {
    /// Opens a store on its data, with a clock that stands at its start.
    pub async fn new(
        kind: StoreKind, backing: Box<dyn Backing>, raw: Box<dyn RawSql>, faults: Box<dyn Faults>,
    ) -> Self {
        let clock = Arc::new(VirtualClock::new());
        let store = Some(backing.open(clock.clone(), None).await);
        Self { kind, clock, raw, faults, backing, store }
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone().expect("the store is open")
    }

    /// Closes the store and opens it again on the same data, so that whatever lived in memory only is gone.
    pub async fn reopen(&mut self) {
        self.store = None;
        self.store = Some(self.backing.open(self.clock.clone(), None).await);
    }

    /// Closes the store and opens it again, so that from now on new ids follow from a number alone.
    pub async fn reopen_with_ids(&mut self, ids: u64) {
        self.store = None;
        self.store = Some(self.backing.open(self.clock.clone(), Some(ids)).await);
    }

    /// A second store on the same data, as another process has it.
    pub async fn second_store(&self) -> Arc<dyn Store> {
        self.backing.open(self.clock.clone(), None).await
    }
}

/// Memory, where there is enough of it for data that nobody wants to keep: making a database is making some hundred
/// files, and a simulation writes without end. Else the folder for temporary files.
pub fn fast_folder() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let memory = Path::new("/dev/shm");
        let free = Command::new("df").args(["--output=avail", "-k"]).arg(memory).output();
        let free =
            free.ok().and_then(|it| String::from_utf8(it.stdout).ok()?.split_whitespace().last()?.parse::<u64>().ok());
        if free.is_some_and(|kilobytes| kilobytes > 2 << 20) { memory.to_owned() } else { std::env::temp_dir() }
    };
    FOUND.get_or_init(find).clone()
}

/// A case: what it does to a world.
pub type Case = for<'a> fn(&'a mut World) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// How long a case may take before it counts as hanging; far above what any needs on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs one case in a fresh world; `only` names the one store it concerns, and why.
pub fn run_case(harness: &dyn Harness, only: Option<(StoreKind, &str)>, case: Case) {
    if let Some((kind, why)) = only
        && kind != harness.kind()
    {
        eprintln!("not for this store: {why}");
        return;
    }
    block_on(async {
        let mut world = harness.open().await;
        tokio::time::timeout(PATIENCE, case(&mut world)).await.expect("the case ends");
    });
}

/// Runs a future to its end on a runtime of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(future)
}
