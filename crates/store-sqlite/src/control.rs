//! Queue control, verb by verb: each hands its work to the writer or a reader.

use crate::{SqliteStore, holds, serial};
use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::bulk::{Bulk, BulkStep, NewBulk, STEP_MAX};
use punctual_core::control::{Control, SerialHold};
use punctual_core::cron::CronPreset;
use punctual_core::duration;
use punctual_core::id::{BulkId, ReservationId};
use punctual_core::job::NewJob;
use punctual_core::job_key;
use punctual_core::store::{Reservation, StoreResult};
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
        let done = self.write(move |tx| tx.advance_bulks(STEP_MAX)).await?;
        if done.done > 0 {
            self.ring();
            // A flow may be among what was cancelled.
            self.ring_plans();
        }
        Ok(done)
    }

    async fn serial_holds(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<SerialHold>> {
        let after = after.unwrap_or_default().to_owned();
        self.read(move |connection| serial::read_holds(connection, &after, limit)).await
    }

    async fn serial_hold(&self, key: &str) -> StoreResult<Option<SerialHold>> {
        let key = key.to_owned();
        self.read(move |connection| serial::read_hold(connection, &key)).await
    }

    async fn release_serial_key(&self, key: &str) -> StoreResult<SerialHold> {
        let key = key.to_owned();
        self.write_and_wake(move |tx| tx.release_serial_key(&key)).await
    }

    async fn renew_reservation(&self, id: ReservationId, for_how_long: SignedDuration) -> StoreResult<Reservation> {
        duration::check("expires_in", for_how_long)?;
        self.write(move |tx| tx.renew_reservation(id, for_how_long)).await
    }

    async fn delete_template(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.write(move |tx| tx.delete_template(&name)).await
    }

    async fn create_cron_preset(&self, preset: CronPreset) -> StoreResult<CronPreset> {
        preset.validate()?;
        self.write(move |tx| tx.create_cron_preset(&preset)).await
    }

    async fn cron_presets(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<CronPreset>> {
        let after = after.unwrap_or_default().to_owned();
        self.read(move |connection| holds::read_presets(connection, &after, limit)).await
    }

    async fn cron_preset(&self, name: &str) -> StoreResult<Option<CronPreset>> {
        let name = name.to_owned();
        self.read(move |connection| holds::read_preset(connection, &name)).await
    }

    async fn delete_cron_preset(&self, name: &str) -> StoreResult<()> {
        let name = name.to_owned();
        self.write(move |tx| tx.delete_cron_preset(&name)).await
    }
}
