//! Queue control: enqueue, promote, edit, cancel, and the queue in its order.

use crate::Shared;
use crate::error::{Failure, Work};
use crate::jobs::{Closing, Placing, serial_keys};
use crate::making::{self, Making, make_lanes_params};
use crate::params::{params, time};
use crate::rows::{self, Columns, Unreadable};
use crate::session::Session;
use crate::sql;
use crate::tx::{Patience, Tx, commit_failure};
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::job::{Job, JobView, NewJob, Origin, Whereabouts};
use punctual_core::json::Json;
use punctual_core::order::Place;
use punctual_core::run::ErrorCode;
use punctual_core::store::{Cancelled, QueuedJob, StoreError, StoreResult};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

/// Makes jobs without serial keys: one statement is the whole transaction, and so one round trip.
pub(crate) async fn enqueue_plain(shared: &Shared, specs: &[NewJob]) -> StoreResult<Vec<JobId>> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let mut patience = Patience::default();
    let ids = loop {
        match try_enqueue(shared, specs).await {
            Err(failure) if patience.allows(&failure).await => {}
            made => break made?,
        }
    };
    if let Some(id) = ids.first() {
        shared.look_after_partitions(made_at(*id));
    }
    shared.ring();
    Ok(ids)
}

async fn try_enqueue(shared: &Shared, specs: &[NewJob]) -> Work<Vec<JobId>> {
    let origin = Origin::default();
    let jobs: Vec<Making<'_>> =
        specs.iter().map(|spec| Making { bits: shared.id_bits(), spec, origin: &origin }).collect();
    let session = shared.session().await?;
    let (statement, params) = making::making(&jobs, shared.turned(), true)?;
    let made = session.rows(statement, &params).await.map_err(commit_failure)?;
    if let Some(ids) = making::ids(&jobs, &made)? {
        return Ok(ids);
    }
    let lanes = make_lanes_params(&jobs, shared.turned());
    session.count(sql::make_lanes, &lanes).await.map_err(commit_failure)?;
    let made = session.rows(statement, &params).await.map_err(commit_failure)?;
    making::ids(&jobs, &made)?.ok_or_else(|| Failure::internal("a lane was not stored"))
}

/// The millisecond in an id.
fn made_at(id: JobId) -> Timestamp {
    let millis = i64::try_from(id.0.as_u128() >> 80).unwrap_or(0);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Tx<'_> {
    /// Makes jobs some of which have serial keys.
    pub(crate) async fn enqueue_jobs(&mut self, specs: &[NewJob]) -> Work<Vec<JobId>> {
        let origin = Origin::default();
        let jobs: Vec<Making<'_>> =
            specs.iter().map(|spec| Making { bits: self.id_bits(), spec, origin: &origin }).collect();
        let keys = serial_keys(specs);
        self.lock_serial_keys(&keys).await?;
        let made = self.make_jobs(&jobs, true).await?;
        self.settle_serial_keys(&keys).await?;
        Ok(made)
    }

    /// Makes one job and puts it where it belongs.
    pub(crate) async fn make_one(&self, spec: &NewJob, origin: &Origin) -> Work<JobId> {
        let keys = serial_keys([spec]);
        self.lock_serial_keys(&keys).await?;
        let made = self.make_jobs(&[Making { bits: self.id_bits(), spec, origin }], true).await?;
        self.settle_serial_keys(&keys).await?;
        made.first().copied().ok_or_else(|| Failure::internal("a job was not stored"))
    }

    pub(crate) async fn promote_due_jobs(&mut self, limit: usize) -> Work<usize> {
        let params = params![self.at(), crate::params::limit(limit)];
        let now = self.now;
        let due = self
            .all(sql::take_due_delayed, params, |row| {
                let mut c = Columns::of(row);
                Ok(Placing {
                    id: c.id()?,
                    lane_id: c.next()?,
                    priority: c.next()?,
                    position: None,
                    created_at: c.time()?,
                    queued_at: now,
                    serial_key: c.next()?,
                    schedule_id: c.optional_id()?,
                    tags: c.next()?,
                })
            })
            .await?;
        let keys: BTreeSet<String> = due.iter().filter_map(|job| job.serial_key.clone()).collect();
        self.lock_serial_keys(&keys).await?;
        self.queue(&due).await?;
        self.settle_serial_keys(&keys).await?;
        Ok(due.len())
    }

    /// A job and where it is, with its serial key and its place locked: nobody claims it before this is done.
    pub(crate) async fn locked_view(&self, id: JobId) -> Work<JobView> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let job = self.job(id).await?.ok_or_else(not_found)?;
        self.lock_serial_keys(&serial_keys([&job.spec])).await?;
        for table in ["queue", "delayed"] {
            let lock = format!("SELECT 1 FROM punctual_internal.{table} WHERE job_id = $1 FOR UPDATE");
            self.rows(&lock, params![id.0]).await?;
        }
        Ok(self.job_view(id).await?.ok_or_else(not_found)?)
    }

    pub(crate) async fn edit_job(&mut self, id: JobId, input: &Json) -> Work<JobId> {
        let JobView { job: old, whereabouts } = self.locked_view(id).await?;
        if matches!(whereabouts, Whereabouts::Running(_) | Whereabouts::Closed(_)) {
            let state = JobView { job: old, whereabouts }.state();
            let remedy = "enqueue a new job with the new input";
            return Err(StoreError::WrongState { state, remedy }.into());
        }
        let spec = NewJob { input: input.clone(), ..old.spec.clone() };
        self.take_waiting(id).await?;
        self.close(&[Closing::unstarted(id, old.schedule_id, ErrorCode::Replaced)]).await?;
        let new_id = self.job_id();
        let origin = old.origin();
        let mut bits = [0; 8];
        bits.copy_from_slice(&new_id.as_bytes()[8..]);
        self.make_jobs(&[Making { bits, spec: &spec, origin: &origin }], false).await?;
        self.take_the_place(&old, &whereabouts, new_id).await?;
        // A key may wait for this job: it is settled when it is seen that it has another id.
        self.adopt_retry(&old, new_id).await?;
        self.settle_serial_keys(&serial_keys([&spec])).await?;
        Ok(new_id)
    }

    /// Puts a new job to where an old one was.
    async fn take_the_place(&self, old: &Job, whereabouts: &Whereabouts, new: JobId) -> Work<()> {
        match whereabouts {
            Whereabouts::Delayed { run_at } => {
                let delay = "INSERT INTO punctual_internal.delayed (job_id, run_at) VALUES ($1, $2)";
                self.execute(delay, params![new.0, run_at.map(time)]).await?;
            }
            Whereabouts::Queued { place, queued_at, .. } => {
                let lane = "SELECT lane_id FROM punctual_internal.jobs WHERE id = $1";
                let lane_id: Option<i64> = self.one(lane, params![new.0], rows::value).await?;
                let placing = Placing {
                    id: new,
                    lane_id: lane_id.ok_or_else(|| Failure::internal("the new job is gone"))?,
                    priority: place.priority,
                    position: Some(place.position),
                    created_at: place.created_at,
                    queued_at: *queued_at,
                    serial_key: old.spec.serial_key.clone(),
                    schedule_id: old.schedule_id,
                    tags: (!old.spec.tags.is_empty()).then(|| rows::document("tags", &old.spec.tags)).transpose()?,
                };
                self.queue(&[placing]).await?;
            }
            Whereabouts::Running(_) | Whereabouts::Closed(_) => {}
        }
        Ok(())
    }

    /// The job that takes another's place is the retry that the other one was.
    async fn adopt_retry(&self, old: &Job, new: JobId) -> Work<()> {
        if let Some(link) = old.retry_of {
            let adopt = "UPDATE punctual_internal.retries SET job_id = $3 WHERE retry_of = $1 AND job_id = $2";
            self.execute(adopt, params![link.0, old.id.0, new.0]).await?;
        }
        self.pass_steps_on(&[(old.id, new)]).await?;
        self.hand_key_on(old, new).await
    }

    pub(crate) async fn cancel_job(&self, id: JobId) -> Work<Cancelled> {
        let not_found = || StoreError::NotFound { what: "job", key: id.to_string() };
        let job = self.job(id).await?.ok_or_else(not_found)?;
        let keys = serial_keys([&job.spec]);
        self.lock_serial_keys(&keys).await?;
        // Between two looks a job may be given back or promoted, but hardly three times.
        for _ in 0..3 {
            if self.take_waiting(id).await? {
                self.close(&[Closing::unstarted(id, job.schedule_id, ErrorCode::Cancelled)]).await?;
                self.settle_serial_keys(&keys).await?;
                self.tell_flows_of_cancelled(&[id]).await?;
                return Ok(Cancelled::BeforeStart);
            }
            if self.request_cancel(&[id], ErrorCode::Cancelled).await? > 0 {
                return Ok(Cancelled::Requested);
            }
            let state = self.job_view(id).await?.ok_or_else(not_found)?.state();
            if state.is_terminal() {
                let remedy = "it has ended already; retry it to run it again";
                return Err(StoreError::WrongState { state, remedy }.into());
            }
        }
        Err(StoreError::Unavailable("the job keeps changing its place".to_owned()).into())
    }

    /// Asks running jobs to stop; the first request stands. Says how many of them run.
    pub(crate) async fn request_cancel(&self, ids: &[JobId], code: ErrorCode) -> Work<u64> {
        let request = "UPDATE punctual_internal.running
                       SET cancel_requested_at = coalesce(cancel_requested_at, $2), cancel_code = coalesce(cancel_code, $3)
                       WHERE job_id = ANY ($1)";
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        self.execute(request, params![ids, self.at(), code.as_str()]).await
    }
}

/// Reads a place from its four columns.
pub(crate) fn place_of(c: &mut Columns<'_>) -> Result<Place, Unreadable> {
    Ok(Place { priority: c.next()?, position: c.next()?, created_at: c.time()?, job_id: c.id()? })
}

/// A page of a queue.
pub(crate) async fn read_queue(
    session: &Session, queue: &str, after: Option<Place>, limit: usize,
) -> Work<Vec<QueuedJob>> {
    let after = after.unwrap_or(Place {
        priority: i32::MAX,
        position: i64::MIN,
        created_at: Timestamp::MIN,
        job_id: JobId::from_bytes([0; 16]),
    });
    let params = params![
        queue,
        after.priority,
        after.position,
        time(after.created_at),
        after.job_id.0,
        crate::params::limit(limit)
    ];
    let rows = session.rows(sql::queue_page, &params).await?;
    Ok(rows::collect(&rows, |row: &Row| {
        let mut c = Columns::of(row);
        Ok(QueuedJob { place: place_of(&mut c)?, ready: c.next()?, serial_key: c.next()? })
    })?)
}
