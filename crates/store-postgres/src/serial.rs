//! Serial keys that are held by a failure: which they are, and letting them go.

use crate::error::Work;
use crate::params::{Params, params};
use crate::rows::{Columns, Unreadable};
use crate::tx::Tx;
use punctual_core::control::SerialHold;
use punctual_core::readings::{COUNT_MAX, Count};
use punctual_core::store::StoreError;
use std::collections::BTreeSet;
use tokio_postgres::Row;

pub(crate) const COLUMNS: &str = "SELECT h.key, h.job_id, h.held_at,
    (SELECT count(*) FROM (SELECT 1 FROM punctual_internal.queue AS q WHERE q.serial_key = h.key LIMIT $1) AS q)
    FROM punctual_internal.serial_holds AS h";

/// What holds keys, and what frees those whose job has come to a good end. The keys are locked.
pub(crate) const HOLD: &str = "INSERT INTO punctual_internal.serial_holds (key, job_id, held_at)
    SELECT w.key, w.job_id, $3 FROM unnest($1::text[], $2::uuid[]) AS w (key, job_id)
    ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id";
pub(crate) const FREE: &str = "DELETE FROM punctual_internal.serial_holds WHERE key = ANY ($1)";

pub(crate) fn one_params(key: &str) -> Params<'_> {
    params![counted(), key]
}

pub(crate) fn counted() -> i64 {
    i64::try_from(COUNT_MAX + 1).unwrap_or(i64::MAX)
}

pub(crate) fn hold(row: &Row) -> Result<SerialHold, Unreadable> {
    let mut c = Columns::of(row);
    Ok(SerialHold { key: c.next()?, job_id: c.id()?, held_at: c.time()?, waiting: Count::of(c.count()?) })
}

impl Tx<'_> {
    pub(crate) async fn release_serial_key(&mut self, key: &str) -> Work<SerialHold> {
        let keys = BTreeSet::from([key.to_owned()]);
        self.lock_serial_keys(&keys).await?;
        let held = self.one(&format!("{COLUMNS} WHERE h.key = $2"), one_params(key), hold).await?;
        let held = held.ok_or_else(|| StoreError::NotFound { what: "held serial key", key: key.to_owned() })?;
        self.execute(FREE, params![vec![key]]).await?;
        self.settle_serial_keys(&keys).await?;
        Ok(held)
    }
}
