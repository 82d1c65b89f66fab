//! Following a chain of retries to its end.

use crate::tx::value;
use crate::{SqliteStore, jobs, rows, sql};
use async_trait::async_trait;
use punctual_core::chain::Chains;
use punctual_core::id::JobId;
use punctual_core::job::JobView;
use punctual_core::store::{Changes, Store, StoreResult};
use rusqlite::params;

#[async_trait]
impl Chains for SqliteStore {
    async fn chain_end(&self, id: JobId) -> StoreResult<Option<JobView>> {
        self.read(move |connection| {
            let last = rows::collect(connection, sql::chain_end, params![id.as_bytes()], value::<[u8; 16]>)?;
            last.last().map_or(Ok(None), |last| jobs::read_view(connection, JobId::from_bytes(*last)))
        })
        .await
    }

    fn ends(&self) -> Box<dyn Changes> {
        self.changes()
    }
}
