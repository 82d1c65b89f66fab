//! Connections: how they are made and kept, and whether a pooler stands between them and the database.

use crate::address::Address;
use crate::error::{store_error, with_causes};
use crate::session::Session;
use crate::tls;
use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, QueueMode, RecyclingMethod, Runtime, Timeouts,
};
use punctual_core::readings::PoolFigures;
use punctual_core::store::{StoreError, StoreResult};
use std::time::Duration;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

/// Plans are short: compiling them to machine code takes longer than running them. And they are kept: one that was made
/// while a queue was empty, and reads all of it, would still be used when it is full. Behind a pooler nothing is kept.
/// Several processes for one statement look cheap to a planner that takes the limit of a page for a tenth of the table:
/// they would read and sort all of it.
pub const SETTINGS: &str = "-c jit=off -c enable_seqscan=off -c plan_cache_mode=force_generic_plan \
                            -c max_parallel_workers_per_gather=0";

/// A setting by which a connection is known again.
const MARK: &str = "punctual.session";

/// How long a verb waits for a free connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a verb waits between two attempts to reach the database; afterwards the caller is told.
const RECONNECT_AFTER: [Duration; 4] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(400), Duration::from_secs(1)];

/// Connections to one address.
#[derive(Debug)]
pub(crate) struct Link {
    pool: Pool,
    /// Whether statements are prepared under a name; see [`Session`].
    named: bool,
}

impl Link {
    /// Connects, and finds out whether each connection leads to a session of its own.
    ///
    /// A connection is opened with a mark among its settings. The database itself brings the mark back; a pooler either
    /// refuses the setting or hands out sessions that were opened by itself, and then no statement gets a name: it
    /// might be carried out under the same name of another client.
    pub(crate) async fn open(address: &Address, size: usize) -> StoreResult<Self> {
        let mark = Uuid::new_v4().simple().to_string();
        let pool = pool(address, size, Some(&mark))?;
        let is_own = match take(&pool).await {
            Ok(client) => is_marked(&client, &mark).await.map_err(|error| store_error(&error))?,
            Err(NotTaken::Database(error)) if refuses_settings(&error) => false,
            Err(error) => return Err(error.into()),
        };
        if is_own {
            return Ok(Self { pool, named: true });
        }
        tracing::info!("a pooler stands before the database: statements get no names");
        Ok(Self { pool: self::pool(address, size, None)?, named: false })
    }

    /// Whether statements are prepared under a name.
    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    /// More connections of the same kind.
    pub(crate) fn another(&self, address: &Address, size: usize) -> StoreResult<Self> {
        let mark = self.named.then_some("another");
        Ok(Self { pool: pool(address, size, mark)?, named: self.named })
    }

    /// How many connections there are, and who waits for one.
    pub(crate) fn figures(&self) -> PoolFigures {
        let status = self.pool.status();
        PoolFigures { max: status.max_size, open: status.size, idle: status.available, waiting: status.waiting }
    }

    /// A connection, if there is one that nobody uses or room for another one.
    pub(crate) async fn spare_session(&self) -> Option<Session> {
        let timeouts = Timeouts { wait: Some(Duration::ZERO), create: Some(PATIENCE), recycle: Some(PATIENCE) };
        let client = self.pool.timeout_get(&timeouts).await.ok()?;
        Some(Session::new(client, self.named))
    }

    /// A connection, made anew with growing pauses when the database cannot be reached.
    pub(crate) async fn session(&self) -> StoreResult<Session> {
        Ok(Session::new(take(&self.pool).await?, self.named))
    }
}

/// Why there is no connection.
enum NotTaken {
    Database(tokio_postgres::Error),
    Pool(String),
}

impl From<NotTaken> for StoreError {
    fn from(reason: NotTaken) -> Self {
        match reason {
            NotTaken::Database(error) => store_error(&error),
            NotTaken::Pool(words) => Self::Unavailable(words),
        }
    }
}

fn pool(address: &Address, size: usize, mark: Option<&str>) -> StoreResult<Pool> {
    let mut config = address.config.clone();
    if let Some(mark) = mark {
        // What the address itself asks for comes last, and so wins.
        let asked = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{SETTINGS} -c {MARK}={mark} {asked}").trim_end());
    }
    let connector = tls::connector(address.trust, address.root_cert.as_deref())?;
    let manager = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, connector, manager);
    let builder = Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).wait_timeout(Some(PATIENCE));
    // The connection that was used last knows the statements and has their plans.
    let built = builder.queue_mode(QueueMode::Lifo).build();
    built.map_err(|error| StoreError::Internal(format!("the pool cannot be made: {error}")))
}

async fn take(pool: &Pool) -> Result<Object, NotTaken> {
    let mut pauses = RECONNECT_AFTER.iter();
    loop {
        match pool.get().await {
            Ok(client) => return Ok(client),
            Err(PoolError::Backend(error)) => match pauses.next() {
                Some(pause) if may_pass(&error) => tokio::time::sleep(*pause).await,
                _ => return Err(NotTaken::Database(error)),
            },
            Err(error) => return Err(NotTaken::Pool(with_causes(&error))),
        }
    }
}

/// Whether a connection that could not be made may succeed a little later. A wrong password or database will not.
fn may_pass(error: &tokio_postgres::Error) -> bool {
    error
        .as_db_error()
        .is_none_or(|error| error.code().code().starts_with("57") || error.code().code().starts_with("53"))
}

/// What a pooler says to settings in the first message: pgbouncer names the protocol, others a feature they lack.
fn refuses_settings(error: &tokio_postgres::Error) -> bool {
    let refusals = [SqlState::PROTOCOL_VIOLATION, SqlState::FEATURE_NOT_SUPPORTED];
    error.code().is_some_and(|state| refusals.contains(state))
}

/// Without a name: whether names are safe is what is being asked.
async fn is_marked(client: &Object, mark: &str) -> Result<bool, tokio_postgres::Error> {
    let found = client.query_typed(&format!("SELECT current_setting('{MARK}', true)"), &[]).await?;
    let found: Option<String> = found.first().map(|row| row.try_get(0)).transpose()?.flatten();
    Ok(found.as_deref() == Some(mark))
}
