//! Queue control, verb by verb: each hands its work to the writer or a reader.

use crate::SqliteStore;
use async_trait::async_trait;
use punctual_core::bulk::{Bulk, BulkStep, NewBulk};
use punctual_core::control::Control;
use punctual_core::id::BulkId;
use punctual_core::job::NewJob;
use punctual_core::job_key;
use punctual_core::store::StoreResult;
use punctual_core::unique::Enqueued;

#[async_trait]
impl Control for SqliteStore {
    async fn enqueue_once(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        job_key::check_batch(&jobs)?;
        self.write_plans(move |tx| tx.enqueue_once(&jobs)).await
    }

    async fn count_bulk(&self, asked: &NewBulk) -> StoreResult<u64> {
        self.count_bulk_jobs(asked).await
    }

    async fn create_bulk(&self, asked: NewBulk) -> StoreResult<Bulk> {
        asked.validate()?;
        self.write_plans(move |tx| tx.create_bulk(&asked)).await
    }

    async fn bulk(&self, id: BulkId) -> StoreResult<Option<Bulk>> {
        self.read_bulk(id).await
    }

    async fn bulks(&self, owner: Option<&str>, before: Option<BulkId>, limit: usize) -> StoreResult<Vec<Bulk>> {
        self.read_bulks(owner, before, limit).await
    }

    async fn cancel_bulk(&self, id: BulkId) -> StoreResult<Bulk> {
        self.write(move |tx| tx.cancel_bulk(id)).await
    }

    async fn advance_bulks(&self) -> StoreResult<BulkStep> {
        let done = self.write(|tx| tx.advance_bulks()).await?;
        if done.done > 0 {
            self.ring();
        }
        Ok(done)
    }
}
