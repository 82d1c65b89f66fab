//! Serial keys that are held by a failure: when they are, which they are, and letting them go.

use crate::rows::{self, Columns, Unreadable};
use crate::tx::Tx;
use punctual_core::closing::KeyAfter;
use punctual_core::control::SerialHold;
use punctual_core::id::JobId;
use punctual_core::readings::{COUNT_MAX, Count};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, Row, params};

const COLUMNS: &str = "SELECT h.key, h.job_id, h.held_at,
    (SELECT count(*) FROM (SELECT 1 FROM punctual_queue WHERE serial_key = h.key LIMIT ?1)) FROM punctual_serial_holds AS h";

impl Tx<'_> {
    /// Writes down what the end of a job means for its key; the caller settles it.
    pub(crate) fn hold_or_free(&self, key: Option<&str>, job: JobId, after: KeyAfter) -> StoreResult<()> {
        let Some(key) = key else { return Ok(()) };
        match after {
            KeyAfter::Same => {}
            KeyAfter::Free => {
                self.execute("DELETE FROM punctual_serial_holds WHERE key = ?1", params![key])?;
            }
            KeyAfter::Held => {
                let hold = "INSERT INTO punctual_serial_holds (key, job_id, held_at) VALUES (?1, ?2, ?3)
                            ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id";
                self.execute(hold, params![key, job.as_bytes(), self.now_us()])?;
            }
        }
        Ok(())
    }

    pub(crate) fn release_serial_key(&mut self, key: &str) -> StoreResult<SerialHold> {
        let held = read_hold(self.connection(), key)?;
        let held = held.ok_or_else(|| StoreError::NotFound { what: "held serial key", key: key.to_owned() })?;
        self.execute("DELETE FROM punctual_serial_holds WHERE key = ?1", params![key])?;
        self.settle_serial_key(Some(key))?;
        Ok(held)
    }
}

fn hold(row: &Row<'_>) -> Result<SerialHold, Unreadable> {
    let mut c = Columns::of(row);
    Ok(SerialHold { key: c.next()?, job_id: c.id()?, held_at: c.time()?, waiting: Count::of(c.count()?) })
}

fn counted() -> i64 {
    i64::try_from(COUNT_MAX + 1).unwrap_or(i64::MAX)
}

/// One key, if it is held.
pub(crate) fn read_hold(connection: &Connection, key: &str) -> StoreResult<Option<SerialHold>> {
    Ok(rows::collect(connection, &format!("{COLUMNS} WHERE h.key = ?2"), params![counted(), key], hold)?.pop())
}

/// A page of the keys that are held.
pub(crate) fn read_holds(connection: &Connection, after: &str, limit: usize) -> StoreResult<Vec<SerialHold>> {
    let find = format!("{COLUMNS} WHERE h.key > ?2 ORDER BY h.key LIMIT ?3");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    rows::collect(connection, &find, params![counted(), after, limit], hold)
}
