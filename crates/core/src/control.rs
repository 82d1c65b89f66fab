//! The part of the store port that steers many jobs at once, and what waits for each other.

use crate::bulk::{Bulk, BulkStep, NewBulk};
use crate::cron::CronPreset;
use crate::id::{BulkId, JobId, ReservationId};
use crate::job::NewJob;
use crate::readings::Count;
use crate::store::{Reservation, StoreResult};
use crate::unique::Enqueued;
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

/// A serial key whose next jobs wait because one has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialHold {
    /// The key.
    pub key: String,
    /// The job that failed last.
    pub job_id: JobId,
    /// Since when.
    pub held_at: Timestamp,
    /// How many jobs of the key are queued.
    pub waiting: Count,
}

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

    /// Serial keys that are held, in order of key.
    async fn serial_holds(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<SerialHold>>;

    /// One of them.
    async fn serial_hold(&self, key: &str) -> StoreResult<Option<SerialHold>>;

    /// Lets the next job of a key go although the one that failed has not been made good. Refused: keys that are not
    /// held.
    async fn release_serial_key(&self, key: &str) -> StoreResult<SerialHold>;

    /// Holds a queue for longer, from now. Refused: holds that have ended, because others may have been there since.
    async fn renew_reservation(&self, id: ReservationId, for_how_long: SignedDuration) -> StoreResult<Reservation>;

    /// Forgets a template; jobs and schedules that were made from it stay. Refused: names that nothing has.
    async fn delete_template(&self, name: &str) -> StoreResult<()>;

    /// Stores a cron preset. Refused: names taken, expressions that cannot be read.
    async fn create_cron_preset(&self, preset: CronPreset) -> StoreResult<CronPreset>;

    /// The cron presets that people made, in order of name.
    async fn cron_presets(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<CronPreset>>;

    /// One of them.
    async fn cron_preset(&self, name: &str) -> StoreResult<Option<CronPreset>>;

    /// Forgets one; schedules keep their expressions. Refused: names that nothing has.
    async fn delete_cron_preset(&self, name: &str) -> StoreResult<()>;
}
