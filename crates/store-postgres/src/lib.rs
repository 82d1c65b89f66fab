//! The PostgreSQL store: any number of nodes on one database, all alike, no leader.
//!
//! The database is the only source of truth and its clock decides. Every verb is one transaction; what belongs
//! together travels in one round trip; rows that another node is busy with are passed over, never waited for, where
//! that is possible. The same conformance suite runs on this store and on SQLite's.

mod address;
mod checks;
mod claim;
mod error;
mod finish;
mod fire;
mod firing;
mod holds;
mod jobs;
mod migrate;
mod moves;
mod params;
mod prune;
mod queue;
mod recover;
mod rows;
mod schedules;
mod session;
pub mod sql;
mod store;
mod tls;
mod tx;
mod wake;

use crate::address::Address;
use crate::error::{store_error, with_causes};
use crate::params::params;
use crate::session::Session;
use deadpool_postgres::{Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime};
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::IdSource;
use punctual_core::invalid::Invalid;
use punctual_core::store::{Clock, StoreError, StoreResult};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use uuid::Uuid;

/// Where nodes tell each other that there is something to do.
pub(crate) const CHANNEL: &str = "punctual_wake";

/// Plans are short: compiling them to machine code takes longer than running them. And they are kept: one that was made
/// while a queue was empty, and reads all of it, would still be used when it is full. A pooler refuses such settings,
/// but behind one nothing is kept, either.
const SETTINGS: &str = "-c jit=off -c enable_seqscan=off";

/// How long a verb waits for a free connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a verb waits between two attempts to reach the database; afterwards the caller is told.
const RECONNECT_AFTER: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// Where time comes from: the database's own clock unless a test turns its own.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where the random part of new ids begins to count; a random number, unless a simulation must see the same again.
    pub ids: Option<u64>,
    /// The most connections, those for heartbeats and wake-ups apart.
    pub pool_size: usize,
    /// An address that leads to the database itself and not to a pooler, for heartbeats and wake-ups.
    pub direct_url: Option<String>,
    /// Whether the address leads to a pooler in transaction mode, such as pgbouncer: no statement gets a name then.
    pub pooler: bool,
    /// Whether other nodes are told when there is something to do, once for each verb, and whether this one listens.
    /// It costs a lock of the whole database at every commit that tells.
    pub notify: bool,
    /// How much time one partition of the ledgers holds.
    pub partition_span: SignedDuration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            clock: None,
            ids: None,
            pool_size: 8,
            direct_url: None,
            pooler: false,
            notify: false,
            partition_span: SignedDuration::from_hours(7 * 24),
        }
    }
}

/// A store in a PostgreSQL database.
///
/// ```no_run
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use punctual_core::{job::NewJob, store::Store, target::Target};
/// use punctual_store_postgres::{PostgresOptions, PostgresStore};
///
/// let store = PostgresStore::connect("postgres://localhost/app", PostgresOptions::default()).await?;
/// let ids = store.enqueue_jobs(vec![NewJob::new(Target::command(["true"]))]).await?;
/// assert!(store.job(ids[0]).await?.is_some());
/// # Ok::<(), punctual_core::store::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

/// What all handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pool: Pool,
    /// One connection of its own, so that a busy pool never costs a node its lease.
    pulse: Pool,
    direct: Address,
    named: bool,
    pulse_named: bool,
    notify: bool,
    clock: Option<Arc<dyn Clock>>,
    ids: Mutex<IdSource>,
    partition_span: SignedDuration,
    /// Until when there are partitions, in microseconds.
    partitions_until: AtomicI64,
    making_partitions: AtomicBool,
    /// Rings when there may be new work or a new plan.
    changed: watch::Sender<()>,
    listener: OnceLock<AbortHandle>,
    itself: Weak<Shared>,
}

impl PostgresStore {
    /// Connects to a database by its address (A24), brings its schema up to date, and refuses one that is too new.
    pub async fn connect(url: &str, options: PostgresOptions) -> StoreResult<Self> {
        if options.partition_span < SignedDuration::from_mins(1) {
            return Err(Invalid::new("partition_span", "is shorter than a minute").remedy("use a day or more").into());
        }
        let address = Address::parse(url)?;
        let direct = options.direct_url.as_deref().map_or_else(|| Ok(address.clone()), Address::parse)?;
        let named = !options.pooler;
        let pulse_named = named || options.direct_url.is_some();
        let pool = pool(&address, options.pool_size.max(1), named)?;
        let pulse = self::pool(&direct, 1, pulse_named)?;
        let shared = Arc::new_cyclic(|itself| Shared {
            pool,
            pulse,
            direct,
            named,
            pulse_named,
            notify: options.notify,
            clock: options.clock,
            ids: Mutex::new(IdSource::from_random(options.ids.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0))),
            partition_span: options.partition_span,
            partitions_until: AtomicI64::new(i64::MIN),
            making_partitions: AtomicBool::new(false),
            changed: watch::Sender::new(()),
            listener: OnceLock::new(),
            itself: itself.clone(),
        });
        let session = shared.session().await?;
        migrate::migrate(&session).await?;
        drop(session);
        if let Err(error) = shared.make_partitions(shared.turned_time()).await {
            tracing::warn!(%error, "failed to make partitions; the default ones take the rows");
        }
        if options.notify {
            wake::listen(&shared);
        }
        Ok(Self { shared })
    }

    /// Makes the roles `punctual_admin`, `punctual_worker`, `punctual_client` and `punctual_reader`, and gives each the
    /// least it needs. Never done unasked, because roles belong to the whole server.
    pub async fn apply_roles(&self) -> StoreResult<()> {
        let session = self.shared.session().await?;
        Ok(migrate::apply_roles(&session).await?)
    }
}

impl Shared {
    /// A connection, made anew with growing pauses when the database cannot be reached.
    pub(crate) async fn session(&self) -> StoreResult<Session> {
        Ok(Session::new(take(&self.pool).await?, self.named))
    }

    /// The connection that heartbeats have to themselves.
    pub(crate) async fn pulse_session(&self) -> StoreResult<Session> {
        Ok(Session::new(take(&self.pulse).await?, self.pulse_named))
    }

    /// The time, when it is not the database's own: cut to what both stores keep.
    pub(crate) fn turned_time(&self) -> Option<Timestamp> {
        let now = self.clock.as_ref()?.now();
        Some(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }

    /// The same, as it is sent: null means the database's own.
    pub(crate) fn turned(&self) -> Option<SystemTime> {
        self.turned_time().map(params::time)
    }

    pub(crate) fn id_bits(&self) -> [u8; 8] {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).next_bits()
    }

    /// Wakes whoever waits in this process.
    pub(crate) fn ring(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn notifies(&self) -> bool {
        self.notify
    }

    /// Makes partitions before they are needed. What comes too late is caught by the DEFAULT partitions.
    pub(crate) fn look_after_partitions(&self, now: Timestamp) {
        let soon = now.saturating_add(self.partition_span).unwrap_or(Timestamp::MAX).as_microsecond();
        if soon < self.partitions_until.load(Ordering::Relaxed) || self.making_partitions.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let Some(shared) = self.itself.upgrade() else { return };
        tokio::spawn(async move {
            if let Err(error) = shared.make_partitions(Some(now)).await {
                // Counted as made all the same: the next restart or the next span tries again.
                shared.partitions_until.store(soon.saturating_add(1), Ordering::Relaxed);
                tracing::warn!(%error, "failed to make partitions; the default ones take the rows");
            }
            shared.making_partitions.store(false, Ordering::Relaxed);
        });
    }

    async fn make_partitions(&self, now: Option<Timestamp>) -> StoreResult<()> {
        let sql = "SELECT punctual_internal.make_partitions(coalesce($1, now()), $2 * interval '1 second')";
        let params = params![now.map(params::time), self.partition_span.as_secs()];
        let rows = self.session().await?.rows(sql, &params).await.map_err(|error| store_error(&error))?;
        let until = rows::collect(&rows, |row| rows::Columns::of(row).time())?.pop();
        let until = until.ok_or_else(|| StoreError::Internal("the partitions were not made".to_owned()))?;
        self.partitions_until.store(until.as_microsecond(), Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

fn pool(address: &Address, size: usize, named: bool) -> StoreResult<Pool> {
    let mut config = address.config.clone();
    if named && config.get_options().is_none() {
        config.options(SETTINGS);
    }
    let connector = tls::connector(address.trust, address.root_cert.as_deref())?;
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, connector, manager);
    let built = Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).wait_timeout(Some(PATIENCE)).build();
    built.map_err(|error| StoreError::Internal(format!("the pool cannot be made: {error}")))
}

async fn take(pool: &Pool) -> StoreResult<deadpool_postgres::Object> {
    let mut pauses = RECONNECT_AFTER.iter();
    loop {
        match pool.get().await {
            Ok(client) => return Ok(client),
            Err(PoolError::Backend(error)) => match pauses.next() {
                Some(pause) if may_pass(&error) => tokio::time::sleep(*pause).await,
                _ => return Err(store_error(&error)),
            },
            Err(error) => return Err(StoreError::Unavailable(with_causes(&error))),
        }
    }
}

/// Whether a connection that could not be made may succeed a little later. A wrong password or database will not.
fn may_pass(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_none_or(|error| error.code().code().starts_with("57") || error.code().code().starts_with("53"))
}
