//! The PostgreSQL store: any number of nodes on one database, all alike, no leader.
//!
//! The database is the only source of truth and its clock decides. Every verb is one transaction; what belongs
//! together travels in one round trip; rows that another node is busy with are passed over, never waited for, where
//! that is possible. The same conformance suite runs on this store and on SQLite's.

mod access;
mod address;
mod alerts;
mod asked;
mod backfill;
mod bulk;
mod checks;
mod claim;
mod client;
mod close;
mod control;
mod deliveries;
mod error;
mod executions;
mod finish;
mod fire;
mod firing;
mod flow_steps;
mod flows;
mod freeze;
mod gather;
mod grants;
mod holds;
mod jobs;
pub mod join;
mod keys;
mod limits;
mod making;
mod manifest;
mod migrate;
mod moves;
mod notify;
mod offers;
mod old_snapshots;
mod outbox;
mod params;
mod pg_cron;
mod policies;
mod pool;
mod prune;
mod queue;
mod readings;
mod record;
mod records;
mod recover;
mod rows;
mod schedules;
mod serial;
mod session;
mod sightings;
mod singles;
pub mod sql;
pub mod sql_target;
mod store;
mod tls;
mod transfer;
mod tx;
mod upkeep;
mod vacuum;
mod wake;
mod warm;

pub use client::{Notifications, connect_client};
pub use migrate::roles_sql;
pub use pg_cron::{PgCron, read_pg_cron};

use crate::address::Address;
use crate::error::store_error;
use crate::gather::Gathering;
use crate::params::params;
use crate::pool::Link;
use crate::session::Session;
use crate::vacuum::Vacuum;
use jiff::{SignedDuration, Timestamp};
use punctual_core::access::Change;
use punctual_core::id::IdSource;
use punctual_core::invalid::Invalid;
use punctual_core::store::{Clock, StoreError, StoreResult};
use punctual_core::upkeep::AppliedMigration;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Instant, SystemTime};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use uuid::Uuid;

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
    /// How much time one partition of the ledgers holds.
    pub partition_span: SignedDuration,
    /// After how many claimed jobs the small tables that they went through are vacuumed, if the role of the store owns
    /// them: autovacuum, which comes once a minute, is too late for a queue that is emptied fast. Never when this is 0.
    pub vacuum_after: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            clock: None,
            ids: None,
            pool_size: 8,
            direct_url: None,
            partition_span: SignedDuration::from_hours(7 * 24),
            vacuum_after: 50_000,
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
    shared: Handle,
}

/// What all handles share, and in whose name this one changes things.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
    change: Option<Arc<Change>>,
}

impl Handle {
    /// In whose name things are changed through this handle.
    pub(crate) fn change(&self) -> Option<&Change> {
        self.change.as_deref()
    }
}

impl std::ops::Deref for Handle {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// What all handles of one store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pool: Link,
    /// One connection of its own, so that a busy pool never costs a node its lease.
    pulse: Link,
    direct: Address,
    clock: Option<Arc<dyn Clock>>,
    ids: Mutex<IdSource>,
    gathering: Gathering,
    /// Who fires at the moment.
    firing: Semaphore,
    partition_span: SignedDuration,
    /// Until when there are partitions, in microseconds.
    partitions_until: AtomicI64,
    making_partitions: AtomicBool,
    /// Rings when there may be new work or a new plan.
    changed: watch::Sender<()>,
    /// Rings when something may be due earlier than before.
    plans: watch::Sender<()>,
    /// Rings when a run has been closed here.
    ended: watch::Sender<()>,
    /// Whether there were limits when a claim was made last: which statement to begin with.
    limited: AtomicBool,
    /// Claims that are on their way.
    claims: claim::ClaimLine,
    /// Whether ends are alike: which statement to begin with.
    alikeness: close::Alikeness,
    /// Clears away what claimed jobs leave behind.
    vacuum: Vacuum,
    /// The connections that are ready, by when each was made. Whoever gets more of them ready holds it.
    warmed: tokio::sync::Mutex<HashSet<Instant>>,
    listener: OnceLock<AbortHandle>,
    /// What was done to the schema when the store was opened.
    migrated: OnceLock<Vec<AppliedMigration>>,
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
        let pool = Link::open(&address, options.pool_size.max(1)).await?;
        let pulse = match options.direct_url {
            None => pool.another(&direct, 1)?,
            Some(_) => Link::open(&direct, 1).await?,
        };
        let shared = Arc::new_cyclic(|itself| Shared {
            pool,
            pulse,
            direct,
            clock: options.clock,
            ids: Mutex::new(IdSource::from_random(options.ids.unwrap_or_else(|| Uuid::new_v4().as_u64_pair().0))),
            gathering: Gathering::default(),
            firing: Semaphore::new(fire::AT_ONCE),
            partition_span: options.partition_span,
            partitions_until: AtomicI64::new(i64::MIN),
            making_partitions: AtomicBool::new(false),
            changed: watch::Sender::new(()),
            plans: watch::Sender::new(()),
            ended: watch::Sender::new(()),
            limited: AtomicBool::new(false),
            claims: claim::ClaimLine::default(),
            alikeness: close::Alikeness::default(),
            vacuum: Vacuum::new(options.vacuum_after),
            warmed: tokio::sync::Mutex::default(),
            listener: OnceLock::new(),
            migrated: OnceLock::new(),
            itself: itself.clone(),
        });
        let session = shared.session().await?;
        let migrated = migrate::migrate(&session).await?;
        if migrated.is_empty() {
            drop(session);
        } else {
            // It has held thousands of locks, and looks through the room for them at the end of every transaction.
            session.discard();
        }
        shared.migrated.get_or_init(|| migrated);
        if let Err(error) = shared.make_partitions(shared.turned_time()).await {
            tracing::warn!(%error, "failed to make partitions; the default ones take the rows");
        }
        Ok(Self { shared: Handle { shared, change: None } })
    }

    /// Whether each connection leads to a session of its own; behind a pooler it does not, and statements get no names.
    pub fn has_own_sessions(&self) -> bool {
        self.shared.pool.is_named()
    }

    /// What was done to the schema when this store was opened.
    pub fn migrated(&self) -> &[AppliedMigration] {
        self.shared.migrated.get().map_or(&[], Vec::as_slice)
    }

    /// Makes the roles `punctual_admin`, `punctual_worker`, `punctual_execution`, `punctual_client` and
    /// `punctual_reader`, and gives each the least it needs. Never done unasked, because roles belong to the whole server.
    pub async fn apply_roles(&self) -> StoreResult<()> {
        let session = self.shared.session().await?;
        Ok(migrate::apply_roles(&session).await?)
    }
}

impl Shared {
    /// A connection, made anew with growing pauses when the database cannot be reached.
    pub(crate) async fn session(&self) -> StoreResult<Session> {
        self.pool.session().await
    }

    /// The connection that heartbeats have to themselves.
    pub(crate) async fn pulse_session(&self) -> StoreResult<Session> {
        self.pulse.session().await
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

    /// Wakes whoever may wait in this process for a place that a limit counts. Others were told by the statement that
    /// made it free.
    pub(crate) fn ring_if_limited(&self) {
        if self.limited.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Wakes whoever fires in this process.
    pub(crate) fn ring_plans(&self) {
        self.plans.send_replace(());
    }

    /// Wakes both.
    pub(crate) fn ring_all(&self) {
        self.ring();
        self.ring_plans();
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
