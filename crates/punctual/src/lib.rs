//! Punctual for programs that embed it: open a store, declare work, run it.

use punctual_core::invalid::Invalid;
use punctual_core::store::{Store, StoreResult};
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use std::sync::Arc;

/// Opens a store by its address alone: `sqlite:PATH`.
///
/// ```
/// let folder = tempfile::tempdir()?;
/// let store = punctual::open(&format!("sqlite:{}", folder.path().join("app.db").display()))?;
/// assert!(punctual::open("carrier-pigeon://home").is_err());
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(url: &str) -> StoreResult<Arc<dyn Store>> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => Ok(Arc::new(SqliteStore::from_url(url, SqliteOptions::default())?)),
        _ => Err(Invalid::new("database", "is not an address that punctual knows")
            .remedy("use sqlite:PATH, such as sqlite:app.db")
            .into()),
    }
}
