//! Looking for what must not be (C17).

use crate::SqliteStore;
use crate::error::store_error;
use crate::log::Log;
use crate::rows::{self, Columns};
use crate::sql;
use async_trait::async_trait;
use jiff::Timestamp;
use punctual_core::checks::{Check, Checks, Finding};
use punctual_core::store::StoreResult;
use rusqlite::types::Value;
use rusqlite::{Connection, params};
use uuid::Uuid;

#[async_trait]
impl Checks for SqliteStore {
    async fn run_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        // Before anything is read, because these checks have a snapshot of their own meanwhile.
        let (old_snapshot, now) = (self.old_snapshot(), self.clock.now());
        let mut found = self.read(move |connection| look(connection, now, limit)).await?;
        found.extend(old_snapshot);
        Ok(Finding::group(found, limit))
    }

    async fn run_quick_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        Ok(Finding::group(self.old_snapshot(), limit))
    }
}

impl SqliteStore {
    /// Unlike PostgreSQL, SQLite tells neither who has a snapshot nor since when. It shows in the log, which cannot be
    /// emptied while one of its snapshots is in use.
    fn old_snapshot(&self) -> Option<(Check, String)> {
        Log::of(&self.path).why_large(&self.path).map(|why| (Check::OldSnapshot, why))
    }
}

/// Looks through everything as of an instant, in a store or in a copy of one.
pub(crate) fn look_through(connection: &Connection, now: Timestamp, limit: usize) -> StoreResult<Vec<Finding>> {
    Ok(Finding::group(look(connection, now, limit)?, limit))
}

fn look(connection: &Connection, now: Timestamp, limit: usize) -> StoreResult<Vec<(Check, String)>> {
    let mut found = damage(connection, limit)?;
    // One more than is told, so that it can be said that there are more.
    let ask = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    found.extend(rows::collect(connection, sql::run_checks, params![ask, now.as_microsecond()], |row| {
        let mut c = Columns::of(row);
        Ok((c.word()?, subject(&c.next()?)))
    })?);
    Ok(found)
}

/// What SQLite says about its own file.
pub(crate) fn damage(connection: &Connection, limit: usize) -> StoreResult<Vec<(Check, String)>> {
    let mut answers = Vec::new();
    let sql = format!("PRAGMA integrity_check({limit})");
    let tell = |row: &rusqlite::Row<'_>| {
        answers.push(row.get::<_, String>(0)?);
        Ok(())
    };
    let mut statement = connection.prepare(&sql).map_err(store_error)?;
    statement.query_map([], tell).and_then(Iterator::collect::<Result<(), _>>).map_err(store_error)?;
    Ok(answers.into_iter().filter(|answer| answer != "ok").map(|answer| (Check::DatabaseDamaged, answer)).collect())
}

/// An id or a name, for people.
fn subject(value: &Value) -> String {
    match value {
        Value::Blob(bytes) => {
            Uuid::from_slice(bytes).map_or_else(|_| "an id of a wrong length".to_owned(), |id| id.to_string())
        }
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Null | Value::Real(_) => "a row without an id".to_owned(),
    }
}
