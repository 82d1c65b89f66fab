//! Freezing and thawing: triggers on the tables, which are there only while a freeze is in force.

use crate::PostgresStore;
use crate::error::Work;
use crate::params::params;
use crate::rows::{Columns, Unreadable};
use crate::tx::{Tx, in_transaction};
use async_trait::async_trait;
use punctual_core::freeze::{Freeze, FreezeLevel, Freezing};
use punctual_core::store::{StoreError, StoreResult};
use tokio_postgres::Row;

/// The state with which the triggers refuse; a class of our own, so that nobody takes it for a fault of the data.
pub(crate) const FROZEN: &str = "PUF01";

/// The freeze that is in force.
pub(crate) const FIND: &str = "SELECT level, why, since FROM punctual_internal.frozen";

#[async_trait]
impl Freezing for PostgresStore {
    async fn frozen(&self) -> StoreResult<Option<Freeze>> {
        Ok(self.shared.read(FIND, params![], freeze).await?.pop())
    }

    async fn freeze(&self, level: FreezeLevel, why: &str) -> StoreResult<Freeze> {
        in_transaction!(&self.shared, |tx| tx.freeze(level, why))
    }

    async fn thaw(&self) -> StoreResult<()> {
        in_transaction!(&self.shared, Plans | tx | tx.thaw())
    }
}

pub(crate) fn freeze(row: &Row) -> Result<Freeze, Unreadable> {
    let mut c = Columns::of(row);
    Ok(Freeze { level: c.word()?, why: c.next()?, since: c.time()? })
}

impl Tx<'_> {
    pub(crate) async fn freeze(&self, level: FreezeLevel, why: &str) -> Work<Freeze> {
        let why = why.replace('\0', "\u{fffd}");
        let set = "SELECT punctual_internal.set_frozen($1, $2, $3)";
        self.rows(set, params![level.as_str(), why, self.at()]).await?;
        let found = self.one(FIND, params![], freeze).await?;
        Ok(found.ok_or_else(|| StoreError::Internal("the freeze was not stored".to_owned()))?)
    }

    pub(crate) async fn thaw(&self) -> Work<()> {
        self.rows("SELECT punctual_internal.set_thawed()", params![]).await?;
        Ok(())
    }
}
