//! The part of the store port that steers many jobs at once, and what waits for each other.

use crate::bulk::{Bulk, BulkStep, NewBulk};
use crate::id::BulkId;
use crate::job::NewJob;
use crate::store::StoreResult;
use crate::unique::Enqueued;
use async_trait::async_trait;

/// Queue control beyond the single job.
#[async_trait]
pub trait Control: Send + Sync {
    /// Makes jobs as [`enqueue_jobs`](crate::store::Store::enqueue_jobs) does, and says for which of them an earlier one
    /// stands because they are unique.
    async fn enqueue_once(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>;

    /// How many jobs a bulk operation would change now; nothing is written.
    async fn count_bulk(&self, asked: &NewBulk) -> StoreResult<u64>;

    /// Begins a bulk operation. It goes on by [`advance_bulks`](Self::advance_bulks), whoever calls that.
    async fn create_bulk(&self, asked: NewBulk) -> StoreResult<Bulk>;

    /// One bulk operation.
    async fn bulk(&self, id: BulkId) -> StoreResult<Option<Bulk>>;

    /// Bulk operations, latest first; those about one owner's jobs, or all.
    async fn bulks(&self, owner: Option<&str>, before: Option<BulkId>, limit: usize) -> StoreResult<Vec<Bulk>>;

    /// Stops a bulk operation; what it has changed stays so. One that has ended stays as it is.
    async fn cancel_bulk(&self, id: BulkId) -> StoreResult<Bulk>;

    /// Takes the next step of the bulk operation that has waited longest.
    async fn advance_bulks(&self) -> StoreResult<BulkStep>;
}
