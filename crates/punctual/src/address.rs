//! Opening a store by its address; the one place that knows which stores there are.

use punctual_core::invalid::Invalid;
use punctual_core::store::{Store, StoreResult};
use punctual_core::upkeep::AppliedMigration;
#[cfg(feature = "postgres")]
use punctual_store_postgres::{PostgresOptions, PostgresStore};
#[cfg(feature = "sqlite")]
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;

/// How the stores are opened, each by its own options.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreOptions {
    #[cfg(feature = "sqlite")]
    pub(crate) sqlite: SqliteOptions,
    #[cfg(feature = "postgres")]
    pub(crate) postgres: PostgresOptions,
}

/// An open store of a known kind, for what only one kind can do.
#[derive(Debug, Clone)]
pub(crate) enum Backing {
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<SqliteStore>),
    #[cfg(feature = "postgres")]
    Postgres(Arc<PostgresStore>),
}

impl Backing {
    #[cfg_attr(not(feature = "postgres"), expect(clippy::unused_async, reason = "only PostgreSQL is waited for"))]
    pub(crate) async fn open(url: &str, options: StoreOptions) -> StoreResult<Self> {
        match url.split_once(':').map(|(scheme, _)| scheme) {
            #[cfg(feature = "sqlite")]
            Some("sqlite") => Ok(Self::Sqlite(Arc::new(SqliteStore::from_url(url, options.sqlite)?))),
            #[cfg(feature = "postgres")]
            Some("postgres" | "postgresql") => {
                Ok(Self::Postgres(Arc::new(PostgresStore::connect(url, options.postgres).await?)))
            }
            #[cfg(not(feature = "sqlite"))]
            Some("sqlite") => Err(left_out("sqlite").into()),
            #[cfg(not(feature = "postgres"))]
            Some("postgres" | "postgresql") => Err(left_out("postgres").into()),
            _ => Err(Invalid::new("database", "is not an address that punctual knows")
                .remedy("use sqlite:PATH, such as sqlite:app.db, or postgres://user@host/database")
                .into()),
        }
    }

    fn migrated(&self) -> &[AppliedMigration] {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.migrated(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.migrated(),
        }
    }

    /// The store behind its port.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Arc::<SqliteStore>::clone(store),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::<PostgresStore>::clone(store),
        }
    }
}

#[cfg(not(all(feature = "sqlite", feature = "postgres")))]
fn left_out(feature: &str) -> Invalid {
    Invalid::new("database", format!("is a {feature} address, and this program was built without that store"))
        .remedy(format!("turn the feature `{feature}` of the crate punctual on"))
}

/// Opens a store by its address alone, for programs that use the store port itself; others use
/// [`Punctual::open`](crate::Punctual::open).
///
/// ```
/// # punctual::testing::block_on(async {
/// let folder = tempfile::tempdir()?;
/// let store = punctual::open(&format!("sqlite:{}", folder.path().join("app.db").display())).await?;
/// assert!(punctual::open("carrier-pigeon://home").await.is_err());
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn open(url: &str) -> StoreResult<Arc<dyn Store>> {
    Ok(Backing::open(url, StoreOptions::default()).await?.store())
}

/// Brings a database to the schema of this version, and says what that took: for those who do it before their programs
/// start. Opening a store does the same.
///
/// ```
/// # punctual::testing::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let url = format!("sqlite:{}", folder.path().join("app.db").display());
/// assert_eq!(punctual::migrate(&url).await?[0].name, "ground");
/// assert!(punctual::migrate(&url).await?.is_empty(), "there is nothing left to do");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub async fn migrate(url: &str) -> StoreResult<Vec<AppliedMigration>> {
    Ok(Backing::open(url, StoreOptions::default()).await?.migrated().to_vec())
}
