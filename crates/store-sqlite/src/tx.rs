//! One verb's work inside the group's transaction: the connection, the instant and new ids.

use crate::error::store_error;
use crate::rows::{self, Unreadable};
use jiff::Timestamp;
use punctual_core::id::{IdSource, JobId};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{CachedStatement, Connection, Params, Row};

/// The work of one verb. Everything it writes becomes durable together, or not at all.
pub(crate) struct Tx<'a> {
    connection: &'a Connection,
    ids: &'a mut IdSource,
    /// The store's time, the same for everything the verb does.
    pub(crate) now: Timestamp,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, ids: &'a mut IdSource, now: Timestamp) -> Self {
        // Microseconds are what both stores keep; anything finer would not read back equal.
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        Self { connection, ids, now }
    }

    /// The random part of a new id.
    pub(crate) fn id_bits(&mut self) -> [u8; 8] {
        self.ids.next_bits()
    }

    /// A new job's id.
    pub(crate) fn job_id(&mut self) -> JobId {
        let bits = self.id_bits();
        JobId::at(self.now, bits)
    }

    /// The present instant as it is stored.
    pub(crate) fn now_us(&self) -> i64 {
        self.now.as_microsecond()
    }

    /// A statement, prepared once.
    pub(crate) fn prepare(&self, sql: &str) -> StoreResult<CachedStatement<'a>> {
        self.connection.prepare_cached(sql).map_err(store_error)
    }

    /// Runs a statement; says how many rows it changed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> StoreResult<usize> {
        self.prepare(sql)?.execute(params).map_err(store_error)
    }

    /// Runs a statement, and keeps the database's own error for the caller to look at.
    pub(crate) fn try_execute(&self, sql: &str, params: impl Params) -> StoreResult<rusqlite::Result<usize>> {
        Ok(self.prepare(sql)?.execute(params))
    }

    /// All rows of a query.
    pub(crate) fn all<T>(
        &self, sql: &str, params: impl Params, decode: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
    ) -> StoreResult<Vec<T>> {
        rows::collect(self.connection, sql, params, decode)
    }

    /// The one row of a query, if there is one.
    pub(crate) fn one<T>(
        &self, sql: &str, params: impl Params, decode: impl FnMut(&Row<'_>) -> Result<T, Unreadable>,
    ) -> StoreResult<Option<T>> {
        Ok(self.all(sql, params, decode)?.pop())
    }

    /// Does a part of the work that may fail by itself: its changes are undone, and the rest goes on.
    ///
    /// An error after which SQLite has ended the whole transaction is passed on.
    pub(crate) fn attempt<T>(
        &mut self, work: impl FnOnce(&mut Self) -> StoreResult<T>,
    ) -> StoreResult<Result<T, StoreError>> {
        self.execute("SAVEPOINT attempt", [])?;
        let result = work(self);
        if let Err(error) = &result {
            if self.connection.is_autocommit() {
                return Err(error.clone());
            }
            self.execute("ROLLBACK TO attempt", [])?;
        }
        self.execute("RELEASE attempt", [])?;
        Ok(result)
    }
}

/// One value of a one-column query.
pub(crate) fn value<T: rusqlite::types::FromSql>(row: &Row<'_>) -> Result<T, Unreadable> {
    rows::Columns::of(row).next()
}
