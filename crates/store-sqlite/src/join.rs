//! Enqueueing inside a transaction of the caller's own, on the caller's own connection to the same file.

use crate::SqliteStore;
use crate::tx::Tx;
use punctual_core::id::JobId;
use punctual_core::invalid::Invalid;
use punctual_core::job::NewJob;
use punctual_core::job_key;
use punctual_core::store::StoreResult;
use rusqlite::Transaction;
use std::path::Path;
use std::sync::PoisonError;

impl SqliteStore {
    /// Makes jobs inside a transaction of the caller's own, all or none: they are there if it commits, and were never
    /// there if it does not. The transaction must be on this store's file. A call that fails leaves nothing behind, and
    /// the transaction can go on.
    ///
    /// Nobody is woken by a commit that the store does not see: within a tenth of a second a worker notices it by
    /// itself, and [`SqliteStore::wake`] tells those of this process at once.
    ///
    /// ```
    /// # use punctual_core::{job::NewJob, target::Target};
    /// # use punctual_store_sqlite::{SqliteOptions, SqliteStore};
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("app.db");
    /// let store = SqliteStore::open(&path, SqliteOptions::default())?;
    /// let mut connection = rusqlite::Connection::open(&path)?;
    /// let transaction = connection.transaction()?;
    /// let ids = store.enqueue_in(&transaction, &[NewJob::new(Target::task("greet"))])?;
    /// transaction.commit()?;
    /// store.wake();
    /// # assert_eq!(ids.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enqueue_in(&self, transaction: &Transaction<'_>, jobs: &[NewJob]) -> StoreResult<Vec<JobId>> {
        job_key::check_batch(jobs)?;
        self.refuse_other_file(transaction.path())?;
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tx = Tx::new(transaction, &mut ids, self.clock.now());
        tx.attempt(|tx| tx.enqueue_jobs(jobs))?
    }

    /// Tells whoever waits in this process that there may be new work.
    pub fn wake(&self) {
        self.changed.send_replace(());
    }

    fn refuse_other_file(&self, path: Option<&str>) -> StoreResult<()> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let same = path.is_some_and(|path| real(Path::new(path)) == real(&self.path));
        if same {
            return Ok(());
        }
        let problem =
            format!("is on {}, not on this store's file", path.filter(|p| !p.is_empty()).unwrap_or("no file"));
        Err(Invalid::new("transaction", problem)
            .remedy(format!("begin it on a connection to {}", self.path.display()))
            .into())
    }
}
