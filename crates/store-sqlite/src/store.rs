//! The store port, verb by verb: each hands its work to the writer or a reader.

use crate::{SqliteStore, claim, finish, fire, holds, jobs, queue, schedules};
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
use tokio::sync::watch;

/// Wake-ups: writes of this store at once, those of others a little later.
pub(crate) struct Wakes(pub(crate) watch::Receiver<()>);

#[async_trait]
impl Changes for Wakes {
    async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is closed: nothing will ever change again.
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn now(&self) -> StoreResult<Timestamp> {
        Ok(self.clock.now())
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(Wakes(self.changed.subscribe()))
    }

    async fn create_schedule(&self, definition: ScheduleDefinition) -> StoreResult<Schedule> {
        self.write_plans(move |tx| tx.create_schedule(definition)).await
    }

    async fn update_schedule_if_version(
        &self, id: ScheduleId, version: i64, definition: ScheduleDefinition,
    ) -> StoreResult<Schedule> {
        self.write_plans(move |tx| tx.update_schedule(id, version, definition)).await
    }

    async fn pause_schedule(&self, id: ScheduleId, by: Option<String>, note: Option<String>) -> StoreResult<Schedule> {
        name::check_text("by", by.as_deref().unwrap_or_default())?;
        name::check_text("note", note.as_deref().unwrap_or_default())?;
        self.write_plans(move |tx| tx.pause_schedule(id, by.as_deref(), note.as_deref())).await
    }

    async fn resume_schedule(&self, id: ScheduleId) -> StoreResult<Schedule> {
        self.write_plans(move |tx| tx.resume_schedule(id)).await
    }

    async fn reschedule(&self, id: ScheduleId, at: Timestamp) -> StoreResult<Schedule> {
        self.write_plans(move |tx| tx.reschedule(id, at)).await
    }

    async fn trigger_schedule(&self, id: ScheduleId, by_hand: ByHand) -> StoreResult<JobId> {
        by_hand.validate()?;
        self.write_and_wake(move |tx| tx.trigger_schedule(id, &by_hand)).await
    }

    async fn delete_schedule(&self, id: ScheduleId) -> StoreResult<()> {
        self.write_plans(move |tx| tx.delete_schedule(id)).await
    }

    async fn schedule(&self, key: &ScheduleKey) -> StoreResult<Option<Schedule>> {
        let key = key.clone();
        self.read(move |connection| schedules::read_schedule(connection, &key)).await
    }

    async fn schedules(&self, after: Option<&str>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let after = after.map(str::to_owned);
        self.read(move |connection| schedules::read_schedules(connection, after.as_deref(), limit)).await
    }

    async fn slots(&self, id: ScheduleId, before: Option<Timestamp>, limit: usize) -> StoreResult<Vec<SlotRow>> {
        self.read(move |connection| fire::read_slots(connection, id, before, limit)).await
    }

    async fn next_due_in(&self) -> StoreResult<Option<SignedDuration>> {
        let now = self.clock.now();
        self.read(move |connection| fire::read_next_due(connection, now)).await
    }

    async fn fire_due(&self, node: Option<NodeId>, limit: usize) -> StoreResult<Fired> {
        let fired = self.write(move |tx| tx.fire_due(node, limit)).await?;
        if fired.schedules > 0 {
            self.ring();
        }
        Ok(fired)
    }

    async fn reconcile_schedules(&self, after: Option<ScheduleId>, limit: usize) -> StoreResult<Reconciled> {
        self.write_plans(move |tx| tx.reconcile(after, limit)).await
    }

    async fn enqueue_jobs(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<JobId>> {
        job_key::check_batch(&jobs)?;
        if jobs.iter().any(|job| job.run_at.is_some()) {
            return self.write_plans(move |tx| tx.enqueue_jobs(&jobs)).await;
        }
        self.write_and_wake(move |tx| tx.enqueue_jobs(&jobs)).await
    }

    async fn promote_due_jobs(&self, limit: usize) -> StoreResult<usize> {
        let promoted = self.write(move |tx| tx.promote_due_jobs(limit)).await?;
        if promoted > 0 {
            self.ring();
        }
        Ok(promoted)
    }

    async fn move_job_if_queued(&self, id: JobId, to: Move) -> StoreResult<Place> {
        self.write_and_wake(move |tx| tx.move_job(id, to)).await
    }

    async fn edit_job_if_queued(&self, id: JobId, input: Json) -> StoreResult<JobId> {
        input.check("input")?;
        self.write_and_wake(move |tx| tx.edit_job(id, &input)).await
    }

    async fn cancel_job(&self, id: JobId) -> StoreResult<Cancelled> {
        self.write_plans(move |tx| tx.cancel_job(id)).await
    }

    async fn job(&self, id: JobId) -> StoreResult<Option<JobView>> {
        self.read(move |connection| jobs::read_view(connection, id)).await
    }

    async fn schedule_jobs(&self, id: ScheduleId, before: Option<JobId>, limit: usize) -> StoreResult<Vec<JobView>> {
        self.read(move |connection| jobs::read_schedule_jobs(connection, id, before, limit)).await
    }

    async fn queued_jobs(&self, queue: &str, after: Option<Place>, limit: usize) -> StoreResult<Vec<QueuedJob>> {
        let queue = queue.to_owned();
        self.read(move |connection| queue::read_queue(connection, &queue, after, limit)).await
    }

    async fn register_node(&self, node: NewNode) -> StoreResult<Lease> {
        node.validate()?;
        self.write(move |tx| tx.register_node(&node)).await
    }

    async fn heartbeat_if_leased(&self, lease: Lease) -> StoreResult<Heartbeat> {
        self.write(move |tx| tx.heartbeat(lease)).await
    }

    async fn node_pulses(&self) -> StoreResult<Vec<NodePulse>> {
        self.read(claim::read_pulses).await
    }

    async fn claim_jobs_if_leased(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let taken = self.write(move |tx| tx.claim_jobs(&request)).await?;
        if taken.is_unread() {
            self.claims.read(move |connection| taken.read(connection)).await
        } else {
            taken.claimed()
        }
    }

    async fn give_back_if_leased(&self, lease: Lease, jobs: Vec<JobId>) -> StoreResult<Vec<JobId>> {
        self.write_and_wake(move |tx| tx.give_back(lease, &jobs)).await
    }

    async fn finish_runs_if_leased(&self, lease: Lease, runs: Vec<FinishedRun>) -> StoreResult<Vec<FinishResult>> {
        let ends = self.write_and_wake(move |tx| tx.finish_runs(lease, &runs)).await?;
        if ends.iter().any(|end| matches!(end, FinishResult::Closed { retry: Some(_) } | FinishResult::GoesOn)) {
            self.ring_plans();
        }
        Ok(ends)
    }

    async fn add_artifacts_if_leased(&self, lease: Lease, job: JobId, artifacts: Vec<Artifact>) -> StoreResult<()> {
        artifacts.iter().try_for_each(Artifact::validate)?;
        self.write(move |tx| tx.add_artifacts(lease, job, &artifacts)).await
    }

    async fn artifacts(&self, job: JobId) -> StoreResult<Vec<Artifact>> {
        self.read(move |connection| finish::read_artifacts(connection, job)).await
    }

    async fn leave_if_leased(&self, lease: Lease) -> StoreResult<()> {
        self.write(move |tx| tx.leave(lease)).await
    }

    async fn recover_lost_nodes(&self, lost: Vec<LostNode>) -> StoreResult<Recovered> {
        let recovered = self.write(move |tx| tx.recover(&lost)).await?;
        if recovered != Recovered::default() {
            self.ring();
            self.ring_plans();
        }
        Ok(recovered)
    }

    async fn set_queue_paused(&self, queue: &str, paused: bool) -> StoreResult<()> {
        let queue = queue.to_owned();
        self.write_and_wake(move |tx| tx.set_queue_paused(&queue, paused)).await
    }

    async fn reserve_queue(&self, queue: &str, holder: &str, for_how_long: SignedDuration) -> StoreResult<Reservation> {
        let (queue, holder) = (queue.to_owned(), holder.to_owned());
        self.write(move |tx| tx.reserve_queue(&queue, &holder, for_how_long)).await
    }

    async fn release_reservation(&self, id: ReservationId) -> StoreResult<()> {
        self.write_and_wake(move |tx| tx.release_reservation(id)).await
    }

    async fn reservation(&self, queue: &str) -> StoreResult<Option<Reservation>> {
        let (queue, now) = (queue.to_owned(), self.clock.now().as_microsecond());
        self.read(move |connection| holds::read_reservation(connection, &queue, now)).await
    }

    async fn create_template(&self, name: Name, job: NewJob, parameters: Vec<Parameter>) -> StoreResult<Template> {
        job.validate()?;
        check_parameters(&parameters, &job.input)?;
        self.write(move |tx| tx.create_template(&name, &job, &parameters)).await
    }

    async fn template(&self, name: &str) -> StoreResult<Option<Template>> {
        let name = name.to_owned();
        self.read(move |connection| holds::read_template(connection, &name)).await
    }

    async fn prune_history(&self, retention: Retention) -> StoreResult<Pruned> {
        self.write(move |tx| tx.prune_history(retention)).await
    }
}
