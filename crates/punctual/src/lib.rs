//! Punctual for programs that embed it: open a store, declare work, run it.

pub mod calls;

use punctual_core::invalid::Invalid;
use punctual_core::store::{Store, StoreResult};
use punctual_store_postgres::{PostgresOptions, PostgresStore};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;

/// Opens a store by its address alone: `sqlite:PATH` or `postgres://…`.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let folder = tempfile::tempdir()?;
/// let store = punctual::open(&format!("sqlite:{}", folder.path().join("app.db").display())).await?;
/// assert!(punctual::open("carrier-pigeon://home").await.is_err());
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn open(url: &str) -> StoreResult<Arc<dyn Store>> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Arc::new(SqliteStore::from_url(url, SqliteOptions::default())?)),
        Some("postgres" | "postgresql") => Ok(Arc::new(PostgresStore::connect(url, PostgresOptions::default()).await?)),
        _ => Err(Invalid::new("database", "is not an address that punctual knows")
            .remedy("use sqlite:PATH, such as sqlite:app.db, or postgres://user@host/database")
            .into()),
    }
}
