//! One verb's work inside the group's transaction: the connection, the instant and new ids.

use crate::error::store_error;
use crate::flow_steps::Told;
use crate::rows::{self, Unreadable};
use jiff::Timestamp;
use punctual_core::calendar::Calendar;
use punctual_core::cap::CappedPass;
use punctual_core::id::{IdSource, JobId};
use punctual_core::order::POSITION_GAP;
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{CachedStatement, Connection, Params, Row, params};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// The work of one verb. Everything it writes becomes durable together, or not at all.
pub(crate) struct Tx<'a> {
    connection: &'a Connection,
    ids: &'a mut IdSource,
    /// Lanes that this verb has used; they are never removed, but a savepoint may take a new one back.
    lanes: HashMap<(String, String, String), i64>,
    /// Whether some tag is limited, as far as this verb has asked.
    pub(crate) limits_tags: Option<bool>,
    /// Numbers of the position sequence that this verb has taken and not used.
    positions: Range<i64>,
    /// Calendars that this verb has looked at, by name: many schedules share one.
    pub(crate) calendars: RefCell<HashMap<String, Option<Arc<Calendar>>>>,
    /// Ends of jobs that their flows have not been told of yet.
    pub(crate) told: Vec<Told>,
    /// The cap on fires, for a verb that fires.
    pub(crate) capped: CappedPass,
    /// The store's time, the same for everything the verb does.
    pub(crate) now: Timestamp,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(connection: &'a Connection, ids: &'a mut IdSource, now: Timestamp) -> Self {
        // Microseconds are what both stores keep; anything finer would not read back equal.
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        Self {
            connection,
            ids,
            lanes: HashMap::new(),
            limits_tags: None,
            positions: 0..0,
            calendars: RefCell::default(),
            told: Vec::new(),
            capped: CappedPass::default(),
            now,
        }
    }

    /// The connection itself, for what is read the same way outside of a transaction.
    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
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

    /// Takes some numbers of the position sequence at once, for a verb that will queue so many jobs.
    pub(crate) fn reserve_positions(&mut self, count: usize) -> StoreResult<()> {
        let count = i64::try_from(count.max(1)).unwrap_or(1);
        let take = "UPDATE punctual_counters SET value = value + ?1 WHERE name = 'position' RETURNING value";
        let last: Option<i64> = self.one(take, [count], value)?;
        let last = last.ok_or_else(|| StoreError::Internal("the position counter is gone".to_owned()))?;
        self.positions = last - count + 1..last + 1;
        Ok(())
    }

    /// A position behind all others: a sequence times the gap, so that no `max()` is asked for.
    pub(crate) fn next_position(&mut self) -> StoreResult<i64> {
        if self.positions.is_empty() {
            self.reserve_positions(1)?;
        }
        let used_up = || StoreError::Internal("positions are used up".to_owned());
        self.positions.next().and_then(|number| number.checked_mul(POSITION_GAP)).ok_or_else(used_up)
    }

    /// The lane of a queue and a job type, for jobs without limited tags; both are made by their first use.
    pub(crate) fn lane(&mut self, queue: &str, job_type: String) -> StoreResult<i64> {
        self.lane_with_tags((queue.to_owned(), job_type, "[]".to_owned()))
    }

    /// The lane of a queue, a job type and limited tags.
    pub(crate) fn lane_with_tags(&mut self, key: (String, String, String)) -> StoreResult<i64> {
        if let Some(id) = self.lanes.get(&key) {
            return Ok(*id);
        }
        let find = "SELECT id FROM punctual_lanes WHERE queue = ?1 AND job_type = ?2 AND tags = ?3";
        let params = params![key.0, key.1, key.2];
        let mut found = self.one(find, params, value)?;
        if found.is_none() {
            self.make_queue(&key.0)?;
            self.execute("INSERT INTO punctual_lanes (queue, job_type, tags) VALUES (?1, ?2, ?3)", params)?;
            found = self.one(find, params, value)?;
        }
        let id = found.ok_or_else(|| StoreError::Internal("a lane was not stored".to_owned()))?;
        self.lanes.insert(key, id);
        Ok(id)
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
        let capped = self.capped.clone();
        let result = work(self);
        if let Err(error) = &result {
            if self.connection.is_autocommit() {
                return Err(error.clone());
            }
            self.execute("ROLLBACK TO attempt", [])?;
            self.lanes.clear();
            self.positions = 0..0;
            self.capped = capped;
            self.told.clear();
        }
        self.execute("RELEASE attempt", [])?;
        Ok(result)
    }
}

/// One value of a one-column query.
pub(crate) fn value<T: rusqlite::types::FromSql>(row: &Row<'_>) -> Result<T, Unreadable> {
    rows::Columns::of(row).next()
}
