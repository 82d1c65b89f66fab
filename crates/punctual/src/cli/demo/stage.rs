//! Where the history is written: aside and in memory, if the system has room there, and then put into the folder.
//!
//! Every verb is durable when it is answered. That is worth its price when somebody relies on it; thousands of them one
//! after the other, about things that never happened, are not.

use std::path::Path;
use std::sync::Arc;

use punctual_core::store::{StoreError, StoreResult};
use punctual_core::virtual_clock::VirtualClock;
use punctual_store_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

use super::history::Past;
use super::script::World;

/// The name of the store's file in a data folder.
const FILE: &str = "punctual.db";

/// Files in here are never written to a disk.
const MEMORY: &str = "/dev/shm";

/// Puts a store with the world's history into a folder; says how many runs ended in it.
pub(super) async fn set(folder: &Path, world: &World) -> StoreResult<u64> {
    if let Some(aside) = in_memory()
        && let Ok(runs) = write(aside.path(), world).await
        && std::fs::copy(aside.path().join(FILE), folder.join(FILE)).is_ok()
    {
        return Ok(runs);
    }
    // There was no such place, or no room in it.
    for leftover in std::fs::read_dir(folder).map_err(|error| unwritable(&error))?.flatten() {
        if leftover.file_name().to_string_lossy().starts_with(FILE) {
            std::fs::remove_file(leftover.path()).map_err(|error| unwritable(&error))?;
        }
    }
    write(folder, world).await
}

/// Writes the history; the store is closed afterwards, and all of it is in its one file.
pub(super) async fn write(folder: &Path, world: &World) -> StoreResult<u64> {
    let clock = Arc::new(VirtualClock::new());
    clock.set(world.origin);
    let options = SqliteOptions { clock: Arc::<VirtualClock>::clone(&clock), readers: 1, ids: Some(world.seed) };
    let store = SqliteStore::open(&folder.join(FILE), options)?;
    Past::new(&store, &clock, world).write().await
}

fn in_memory() -> Option<TempDir> {
    let memory = Path::new(MEMORY);
    memory.is_dir().then(|| tempfile::Builder::new().prefix("punctual-demo-").tempdir_in(memory).ok()).flatten()
}

fn unwritable(error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("the demo's folder cannot be used: {error}"))
}
