//! Looking for what must not be (C17).

use crate::PostgresStore;
use crate::error::Work;
use crate::params::params;
use crate::rows::{self, Columns};
use crate::sql;
use async_trait::async_trait;
use punctual_core::checks::{Checks, Finding};
use punctual_core::store::StoreResult;

#[async_trait]
impl Checks for PostgresStore {
    async fn run_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        Ok(self.find(limit).await?)
    }
}

impl PostgresStore {
    async fn find(&self, limit: usize) -> Work<Vec<Finding>> {
        let session = self.shared.session().await?;
        // One more than is told, so that it can be said that there are more.
        let ask = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let rows = session.rows(sql::run_checks, &params![ask, self.shared.turned()]).await?;
        let found = rows::collect(&rows, |row| {
            let mut c = Columns::of(row);
            Ok((c.word()?, c.next()?))
        })?;
        Ok(Finding::group(found, limit))
    }
}
