//! Looking for what must not be (C17).

use crate::error::Work;
use crate::params::params;
use crate::rows::{self, Columns};
use crate::session::Session;
use crate::{PostgresStore, old_snapshots, sql};
use async_trait::async_trait;
use punctual_core::checks::{Check, Checks, Finding};
use punctual_core::store::StoreResult;

#[async_trait]
impl Checks for PostgresStore {
    async fn run_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        Ok(self.find(limit).await?)
    }

    async fn run_quick_checks(&self, limit: usize) -> StoreResult<Vec<Finding>> {
        let session = self.shared.session().await?;
        Ok(Finding::group(self.find_quickly(&session, one_more(limit)).await?, limit))
    }
}

impl PostgresStore {
    async fn find(&self, limit: usize) -> Work<Vec<Finding>> {
        let session = self.shared.session().await?;
        let ask = one_more(limit);
        let mut found = self.find_quickly(&session, ask).await?;
        let rows = session.rows(sql::run_checks, &params![ask, self.shared.turned()]).await?;
        found.extend(rows::collect(&rows, |row| {
            let mut c = Columns::of(row);
            Ok((c.word()?, c.next()?))
        })?);
        Ok(Finding::group(found, limit))
    }

    async fn find_quickly(&self, session: &Session, ask: i64) -> Work<Vec<(Check, String)>> {
        let old = old_snapshots::find(session, self.shared.turned(), ask).await?;
        Ok(old.into_iter().map(|words| (Check::OldSnapshot, words)).collect())
    }
}

/// One more than is told, so that it can be said that there are more.
fn one_more(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}
