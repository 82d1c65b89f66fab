//! The store port, verb by verb: each is one transaction, or one statement where that is enough.

use crate::tx::in_transaction;
use crate::wake::{self, Wake, Wakes};
use crate::{PostgresStore, claim, finish, fire, gather, holds, jobs, queue, rows, schedules, warm};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use punctual_core::id::{JobId, NodeId, ReservationId, ScheduleId};
use punctual_core::job::{Artifact, JobView, NewJob};
use punctual_core::job_key;
use punctual_core::json::Json;
use punctual_core::limits::Claimed;
use punctual_core::name::{self, Name};
use punctual_core::order::{Move, Place};
use punctual_core::schedule::{ByHand, Schedule, ScheduleDefinition};
use punctual_core::slot::SlotRow;
use punctual_core::store::{
    Cancelled, Changes, ClaimRequest, FinishResult, FinishedRun, Fired, Heartbeat, Lease, LostNode, NewNode, NodePulse,
    Pruned, QueuedJob, Reconciled, Recovered, Reservation, Retention, ScheduleKey, Store, StoreResult, Template,
};
use punctual_core::template::{Parameter, check_parameters};
use punctual_core::unique::Enqueued;

#[async_trait]
impl Store for PostgresStore {
    async fn now(&self) -> StoreResult<Timestamp> {
        if let Some(now) = self.shared.turned_time() {
            return Ok(now);
        }
        let session = self.shared.session().await?;
        let found = session.rows("SELECT now()", &crate::params::Params::default()).await;
        let found = found.map_err(|error| crate::error::store_error(&error))?;
        rows::now_of(&found).map_err(rows::unreadable)
    }

    fn changes(&self) -> Box<dyn Changes> {
        wake::listen(&self.shared.shared);
        Box::new(Wakes(self.shared.changed.subscribe()))
    }

    async fn warm_up(&self) -> StoreResult<()> {
        warm::warm_up(&self.shared).await
    }

    async fn create_schedule(&self, definition: ScheduleDefinition) -> StoreResult<Schedule> {
        in_transaction!(&self.shared, |schedule| Some(Wake::of(schedule)), |tx| tx.create_schedule(&definition))
    }

    async fn update_schedule_if_version(
        &self, id: ScheduleId, version: i64, definition: ScheduleDefinition,
    ) -> StoreResult<Schedule> {
        in_transaction!(&self.shared, |schedule| Some(Wake::of(schedule)), |tx| tx.update_schedule(
            id,
            version,
            &definition
        ))
    }

    async fn pause_schedule(&self, id: ScheduleId, by: Option<String>, note: Option<String>) -> StoreResult<Schedule> {
        name::check_text("by", by.as_deref().unwrap_or_default())?;
        name::check_text("note", note.as_deref().unwrap_or_default())?;
        in_transaction!(&self.shared, Plans | tx | tx.pause_schedule(id, by.as_deref(), note.as_deref()))
    }

    async fn resume_schedule(&self, id: ScheduleId) -> StoreResult<Schedule> {
        in_transaction!(&self.shared, |schedule| Some(Wake::of(schedule)), |tx| tx.resume_schedule(id))
    }

    async fn reschedule(&self, id: ScheduleId, at: Timestamp) -> StoreResult<Schedule> {
        in_transaction!(&self.shared, |schedule| Some(Wake::of(schedule)), |tx| tx.reschedule(id, at))
    }

    async fn trigger_schedule(&self, id: ScheduleId, by_hand: ByHand) -> StoreResult<JobId> {
        by_hand.validate()?;
        in_transaction!(&self.shared, Told | tx | tx.trigger_schedule(id, &by_hand))
    }

    async fn delete_schedule(&self, id: ScheduleId) -> StoreResult<()> {
        in_transaction!(&self.shared, Plans | tx | tx.delete_schedule(id))
    }

    async fn schedule(&self, key: &ScheduleKey) -> StoreResult<Option<Schedule>> {
        Ok(schedules::read_schedule(&self.shared.session().await?, key).await?)
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>> {
        Ok(schedules::read_schedules(&self.shared.session().await?, after, limit).await?)
    }

    async fn slots(&self, id: ScheduleId, before: Option<Timestamp>, limit: usize) -> StoreResult<Vec<SlotRow>> {
        Ok(fire::read_slots(&self.shared.session().await?, id, before, limit).await?)
    }

    async fn next_due_in(&self) -> StoreResult<Option<SignedDuration>> {
        Ok(fire::read_next_due(&self.shared).await?)
    }

    async fn fire_due(&self, node: Option<NodeId>, limit: usize) -> StoreResult<Fired> {
        fire::fire_due(&self.shared, node, limit).await
    }

    async fn reconcile_schedules(&self, after: Option<ScheduleId>, limit: usize) -> StoreResult<Reconciled> {
        in_transaction!(&self.shared, |done| (done.replanned > 0).then_some(Wake::Plans), |tx| tx
            .reconcile(after, limit))
    }

    async fn enqueue_jobs(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<JobId>> {
        job_key::check_batch(&jobs)?;
        // Others are told by the statement itself; in this process, whoever fires must know of what is due later.
        let delayed = jobs.iter().any(|job| job.run_at.is_some());
        let made = self.make_jobs(jobs).await?;
        if delayed {
            self.shared.ring_plans();
        }
        Ok(made)
    }

    async fn promote_due_jobs(&self, limit: usize) -> StoreResult<usize> {
        in_transaction!(&self.shared, |promoted| (*promoted > 0).then_some(Wake::Work), |tx| tx.promote_due_jobs(limit))
    }

    async fn move_job_if_queued(&self, id: JobId, to: Move) -> StoreResult<Place> {
        in_transaction!(&self.shared, Work | tx | tx.move_job(id, to))
    }

    async fn edit_job_if_queued(&self, id: JobId, input: Json) -> StoreResult<JobId> {
        input.check("input")?;
        in_transaction!(&self.shared, Work | tx | tx.edit_job(id, &input))
    }

    async fn cancel_job(&self, id: JobId) -> StoreResult<Cancelled> {
        in_transaction!(&self.shared, Plans | tx | tx.cancel_job(id))
    }

    async fn job(&self, id: JobId) -> StoreResult<Option<JobView>> {
        Ok(jobs::read_view(&self.shared.session().await?, id).await?)
    }

    async fn schedule_jobs(&self, id: ScheduleId, before: Option<JobId>, limit: usize) -> StoreResult<Vec<JobView>> {
        Ok(jobs::read_schedule_jobs(&self.shared.session().await?, id, before, limit).await?)
    }

    async fn queued_jobs(&self, queue: &str, after: Option<Place>, limit: usize) -> StoreResult<Vec<QueuedJob>> {
        Ok(queue::read_queue(&self.shared.session().await?, queue, after, limit).await?)
    }

    async fn register_node(&self, node: NewNode) -> StoreResult<Lease> {
        node.validate()?;
        in_transaction!(&self.shared, |tx| tx.register_node(&node))
    }

    async fn heartbeat_if_leased(&self, lease: Lease) -> StoreResult<Heartbeat> {
        claim::heartbeat(&self.shared, lease).await
    }

    async fn node_pulses(&self) -> StoreResult<Vec<NodePulse>> {
        Ok(claim::read_pulses(&self.shared.session().await?).await?)
    }

    async fn claim_jobs_if_leased(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        claim::claim_jobs(&self.shared, &request).await
    }

    async fn give_back_if_leased(&self, lease: Lease, jobs: Vec<JobId>) -> StoreResult<Vec<JobId>> {
        in_transaction!(&self.shared, Work | tx | tx.give_back(lease, &jobs))
    }

    async fn finish_runs_if_leased(&self, lease: Lease, runs: Vec<FinishedRun>) -> StoreResult<Vec<FinishResult>> {
        finish::finish_runs(&self.shared, lease, &runs).await
    }

    async fn add_artifacts_if_leased(&self, lease: Lease, job: JobId, artifacts: Vec<Artifact>) -> StoreResult<()> {
        artifacts.iter().try_for_each(Artifact::validate)?;
        in_transaction!(&self.shared, |tx| tx.add_artifacts(lease, job, &artifacts))
    }

    async fn artifacts(&self, job: JobId) -> StoreResult<Vec<Artifact>> {
        Ok(finish::read_artifacts(&self.shared.session().await?, job).await?)
    }

    async fn leave_if_leased(&self, lease: Lease) -> StoreResult<()> {
        in_transaction!(&self.shared, |tx| tx.leave(lease))
    }

    async fn recover_lost_nodes(&self, lost: Vec<LostNode>) -> StoreResult<Recovered> {
        in_transaction!(&self.shared, |done| (*done != Recovered::default()).then_some(Wake::Plans), |tx| tx
            .recover(&lost))
    }

    async fn set_queue_paused(&self, queue: &str, paused: bool) -> StoreResult<()> {
        in_transaction!(&self.shared, Work | tx | tx.set_queue_paused(queue, paused))
    }

    async fn reserve_queue(&self, queue: &str, holder: &str, for_how_long: SignedDuration) -> StoreResult<Reservation> {
        in_transaction!(&self.shared, |tx| tx.reserve_queue(queue, holder, for_how_long))
    }

    async fn release_reservation(&self, id: ReservationId) -> StoreResult<()> {
        in_transaction!(&self.shared, Work | tx | tx.release_reservation(id))
    }

    async fn reservation(&self, queue: &str) -> StoreResult<Option<Reservation>> {
        Ok(holds::read_reservation(&self.shared, &self.shared.session().await?, queue).await?)
    }

    async fn create_template(&self, name: Name, job: NewJob, parameters: Vec<Parameter>) -> StoreResult<Template> {
        job.validate()?;
        check_parameters(&parameters, &job.input)?;
        in_transaction!(&self.shared, |tx| tx.create_template(&name, &job, &parameters))
    }

    async fn template(&self, name: &str) -> StoreResult<Option<Template>> {
        Ok(holds::read_template(&self.shared.session().await?, name).await?)
    }

    async fn prune_history(&self, retention: Retention) -> StoreResult<Pruned> {
        let dropped = in_transaction!(&self.shared, |tx| tx.drop_partitions(retention))?;
        let deleted = in_transaction!(&self.shared, |tx| tx.prune_rows(retention))?;
        Ok(Pruned { jobs: dropped.jobs + deleted.jobs, slots: dropped.slots + deleted.slots, ..deleted })
    }
}

impl PostgresStore {
    async fn make_jobs(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<JobId>> {
        if jobs.iter().any(|job| job.job_key.is_some() || job.unique.is_some()) {
            let made = self.make_keyed_jobs(&jobs).await?;
            return Ok(made.into_iter().map(|enqueued| enqueued.id).collect());
        }
        if jobs.iter().all(|job| job.serial_key.is_none()) && self.shared.change().is_none() {
            return gather::enqueue(&self.shared.shared, jobs).await;
        }
        in_transaction!(&self.shared, Told | tx | tx.enqueue_jobs(&jobs))
    }

    pub(crate) async fn make_keyed_jobs(&self, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        let delayed = jobs.iter().any(|job| job.run_at.is_some());
        let wake = if delayed { Wake::Plans } else { Wake::Work };
        in_transaction!(&self.shared, |_| Some(wake), |tx| tx.enqueue_with_keys(jobs))
    }
}
