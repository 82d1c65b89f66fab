//! Queue control, verb by verb: each is one transaction, or one statement where that is enough.

use crate::params::params;
use crate::tx::in_transaction;
use crate::wake::Wake;
use crate::{PostgresStore, holds, serial};
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::bulk::{Bulk, BulkStep, NewBulk};
use punctual_core::control::{Control, SerialHold};
use punctual_core::cron::CronPreset;
use punctual_core::duration;
use punctual_core::id::{BulkId, ReservationId};
use punctual_core::job::NewJob;
use punctual_core::job_key;
use punctual_core::store::{Reservation, StoreResult};
use punctual_core::unique::Enqueued;

#[async_trait]
impl Control for PostgresStore {
    async fn enqueue_once(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        job_key::check_batch(&jobs)?;
        self.make_keyed_jobs(&jobs).await
    }

    async fn count_bulk(&self, asked: &NewBulk) -> StoreResult<u64> {
        self.count_bulk_jobs(asked).await
    }

    async fn create_bulk(&self, asked: NewBulk) -> StoreResult<Bulk> {
        asked.validate()?;
        in_transaction!(&self.shared, Plans | tx | tx.create_bulk(&asked))
    }

    async fn bulk(&self, id: BulkId) -> StoreResult<Option<Bulk>> {
        self.read_bulk(id).await
    }

    async fn bulks(&self, owner: Option<&str>, before: Option<BulkId>, limit: usize) -> StoreResult<Vec<Bulk>> {
        self.read_bulks(owner, before, limit).await
    }

    async fn cancel_bulk(&self, id: BulkId) -> StoreResult<Bulk> {
        in_transaction!(&self.shared, |tx| tx.cancel_bulk(id))
    }

    async fn advance_bulks(&self) -> StoreResult<BulkStep> {
        in_transaction!(&self.shared, |done| (done.done > 0).then_some(Wake::Work), |tx| tx.advance_bulks())
    }

    async fn serial_holds(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<SerialHold>> {
        let find = format!("{} WHERE h.key > $2 ORDER BY h.key LIMIT $3", serial::COLUMNS);
        let params = params![serial::counted(), after.unwrap_or_default(), crate::params::limit(limit)];
        Ok(self.shared.read(&find, params, serial::hold).await?)
    }

    async fn serial_hold(&self, key: &str) -> StoreResult<Option<SerialHold>> {
        let find = format!("{} WHERE h.key = $2", serial::COLUMNS);
        Ok(self.shared.read(&find, serial::one_params(key), serial::hold).await?.pop())
    }

    async fn release_serial_key(&self, key: &str) -> StoreResult<SerialHold> {
        in_transaction!(&self.shared, Work | tx | tx.release_serial_key(key))
    }

    async fn renew_reservation(&self, id: ReservationId, for_how_long: SignedDuration) -> StoreResult<Reservation> {
        duration::check("expires_in", for_how_long)?;
        in_transaction!(&self.shared, |tx| tx.renew_reservation(id, for_how_long))
    }

    async fn delete_template(&self, name: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.delete_template(name))
    }

    async fn create_cron_preset(&self, preset: CronPreset) -> StoreResult<CronPreset> {
        preset.validate()?;
        in_transaction!(&self.shared, |tx| tx.create_cron_preset(&preset))
    }

    async fn cron_presets(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<CronPreset>> {
        let find = format!("{} WHERE name > $1 ORDER BY name LIMIT $2", holds::PRESETS);
        let params = params![after.unwrap_or_default(), crate::params::limit(limit)];
        Ok(self.shared.read(&find, params, holds::preset).await?)
    }

    async fn cron_preset(&self, name: &str) -> StoreResult<Option<CronPreset>> {
        let find = format!("{} WHERE name = $1", holds::PRESETS);
        Ok(self.shared.read(&find, params![name], holds::preset).await?.pop())
    }

    async fn delete_cron_preset(&self, name: &str) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.delete_cron_preset(name))
    }
}
