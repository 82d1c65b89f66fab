//! Jobs and their places: inserting, queueing, closing, and the head of a serial key.

use crate::error::{is_unique_violation, store_error};
use crate::rows::{self, Columns, bytes, document, retry_text};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::closing::storable_text;
use punctual_core::id::{JobId, NodeId, ScheduleId};
use punctual_core::job::{Job, JobView, NewJob, Origin, Whereabouts};
use punctual_core::json::Json;
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{StoreError, StoreResult};
use rusqlite::{Connection, params};

/// A job that was inserted and has no place yet.
#[derive(Debug, Clone)]
pub(crate) struct Placeless {
    pub(crate) id: JobId,
    pub(crate) lane_id: i64,
    pub(crate) priority: i32,
    pub(crate) created_at: Timestamp,
    pub(crate) serial_key: Option<String>,
    pub(crate) schedule_id: Option<ScheduleId>,
    /// Whether it is known to carry no tags.
    pub(crate) untagged: bool,
}

/// Where in a queue a job goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueSlot {
    pub(crate) priority: i32,
    pub(crate) position: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) queued_at: Timestamp,
}

impl Tx<'_> {
    /// Inserts a job; the caller gives it a place in the same transaction.
    pub(crate) fn insert_job(&mut self, id: JobId, spec: &NewJob, origin: &Origin) -> StoreResult<Placeless> {
        let lane_id = self.lane(&spec.queue, spec.target.job_type())?;
        let tags = (!spec.tags.is_empty()).then(|| document("tags", &spec.tags)).transpose()?;
        let chain = origin.chain.as_ref();
        self.execute(
            sql::insert_job,
            params![
                id.as_bytes(),
                self.now_us(),
                lane_id,
                spec.priority,
                document("target", &spec.target)?,
                spec.input.as_str(),
                spec.run_at.map(Timestamp::as_microsecond),
                spec.serial_key,
                tags,
                retry_text(&spec.retry)?,
                spec.timeout.as_micros(),
                bytes(spec.template_id.as_ref()),
                bytes(spec.grant_id.as_ref()),
                spec.trigger.as_str(),
                spec.trigger_detail,
                spec.trace_context,
                bytes(origin.schedule_id.as_ref()),
                origin.slot_at.map(Timestamp::as_microsecond),
                chain.map(|c| c.retry_of.as_bytes()),
                chain.map(|c| c.root_job_id.as_bytes()),
                chain.map(|c| c.began_at.as_microsecond()),
                chain.map_or(1, |c| c.attempt),
                chain.map_or(0, |c| c.failures),
                chain.map_or(0, |c| c.interruptions),
                spec.job_key.as_ref().map(|key| &key.key),
                spec.job_key.as_ref().map(|key| key.mode.as_str()),
                spec.owner,
            ],
        )?;
        if let Some(schedule_id) = origin.schedule_id {
            self.execute(
                "INSERT INTO punctual_schedule_live (schedule_id, job_id) VALUES (?1, ?2)",
                params![schedule_id.as_bytes(), id.as_bytes()],
            )?;
        }
        Ok(Placeless {
            id,
            lane_id,
            priority: spec.priority,
            created_at: self.now,
            serial_key: spec.serial_key.clone(),
            schedule_id: origin.schedule_id,
            untagged: spec.tags.is_empty(),
        })
    }

    /// Inserts a job and puts it where it belongs: into `delayed` when its time is ahead, else into its queue.
    pub(crate) fn insert_and_place(&mut self, spec: &NewJob, origin: &Origin) -> StoreResult<JobId> {
        let id = self.job_id();
        let job = self.insert_job(id, spec, origin)?;
        match spec.run_at.filter(|at| *at > self.now) {
            Some(run_at) => self.delay(job.id, run_at)?,
            None => self.queue_at_the_back(&job)?,
        }
        Ok(job.id)
    }

    pub(crate) fn delay(&mut self, id: JobId, run_at: Timestamp) -> StoreResult<()> {
        self.execute(
            "INSERT INTO punctual_delayed (job_id, run_at) VALUES (?1, ?2)",
            params![id.as_bytes(), run_at.as_microsecond()],
        )?;
        Ok(())
    }

    /// Puts a job behind everything of its priority.
    pub(crate) fn queue_at_the_back(&mut self, job: &Placeless) -> StoreResult<()> {
        let slot = QueueSlot {
            priority: job.priority,
            position: self.next_position()?,
            created_at: job.created_at,
            queued_at: self.now,
        };
        self.queue_at(job, slot)
    }

    /// Puts a job at an exact place.
    pub(crate) fn queue_at(&mut self, job: &Placeless, slot: QueueSlot) -> StoreResult<()> {
        let lane_id = if job.untagged { job.lane_id } else { self.lane_by_tags(job.id, job.lane_id)? };
        self.execute(
            sql::insert_queued,
            params![
                job.id.as_bytes(),
                lane_id,
                slot.priority,
                slot.position,
                slot.created_at.as_microsecond(),
                slot.queued_at.as_microsecond(),
                job.serial_key,
                bytes(job.schedule_id.as_ref()),
            ],
        )?;
        self.settle_serial_key(job.serial_key.as_deref())
    }

    /// Makes a queue, if it is not there.
    pub(crate) fn make_queue(&mut self, queue: &str) -> StoreResult<()> {
        self.execute(
            "INSERT INTO punctual_queues (name, created_at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            params![queue, self.now_us()],
        )?;
        Ok(())
    }

    /// Lets exactly the head of a serial key be claimed, or nobody while a job of the key runs. The head of a key that is
    /// held is the last retry of the job that failed.
    ///
    /// Called after everything that changes which job is the head or whether the key is free.
    pub(crate) fn settle_serial_key(&mut self, key: Option<&str>) -> StoreResult<()> {
        let Some(key) = key else { return Ok(()) };
        let hold = "SELECT job_id FROM punctual_serial_holds WHERE key = ?1";
        let head = match self.one(hold, params![key], value::<[u8; 16]>)? {
            Some(failed) => self.one(sql::chain_end, params![failed], value::<[u8; 16]>)?,
            None => self.one(sql::serial_head, params![key], value::<[u8; 16]>)?,
        };
        let Some(head) = head else { return Ok(()) };
        self.execute(sql::hold_serial_others, params![key, head])?;
        self.execute(sql::ready_serial_head, params![key, head])?;
        Ok(())
    }

    /// Takes a job that has not started out of `delayed` or `queue`; false when it was in neither.
    pub(crate) fn take_waiting(&mut self, id: JobId) -> StoreResult<bool> {
        if self.execute("DELETE FROM punctual_delayed WHERE job_id = ?1", params![id.as_bytes()])? > 0 {
            return Ok(true);
        }
        let take = "DELETE FROM punctual_queue WHERE job_id = ?1 RETURNING serial_key";
        match self.one(take, params![id.as_bytes()], value::<Option<String>>)? {
            None => Ok(false),
            Some(key) => self.settle_serial_key(key.as_deref()).map(|()| true),
        }
    }

    /// Closes a job that never started, for a reason that trying again would not change.
    pub(crate) fn close_unstarted(
        &mut self, id: JobId, schedule: Option<ScheduleId>, code: ErrorCode,
    ) -> StoreResult<()> {
        self.close(&Closing {
            job_id: id,
            schedule_id: schedule,
            node_id: None,
            started_at: None,
            outcome: Outcome::Cancelled,
            error_code: Some(code),
            error: None,
            exit_code: None,
            output: None,
            log_ref: None,
            usage: None,
            is_final: true,
        })
    }

    /// Closes a job that cannot have been closed before.
    pub(crate) fn close(&mut self, run: &Closing<'_>) -> StoreResult<()> {
        if self.close_once(run)? {
            return Ok(());
        }
        Err(StoreError::Internal(format!("the job {} waits although its run has ended", run.job_id)))
    }

    /// Writes the one run of a job and takes it off its schedule's list of live jobs; false when it has one already,
    /// as a restored backup may hold it.
    pub(crate) fn close_once(&mut self, run: &Closing<'_>) -> StoreResult<bool> {
        let error = run.error.map(storable_text);
        let inserted = self.try_execute(
            sql::insert_run,
            params![
                run.job_id.as_bytes(),
                bytes(run.node_id.as_ref()),
                run.started_at.map(Timestamp::as_microsecond),
                self.now_us(),
                run.outcome.as_str(),
                run.error_code.map(ErrorCode::as_str),
                error,
                run.exit_code,
                run.output.map(Json::as_str),
                run.log_ref.map(storable_text),
                run.is_final,
                run.usage.map(Json::as_str),
            ],
        )?;
        let closed = match inserted {
            Ok(_) => true,
            Err(error) if is_unique_violation(&error) => false,
            Err(error) => return Err(store_error(error)),
        };
        if let Some(schedule_id) = run.schedule_id {
            self.execute(
                "DELETE FROM punctual_schedule_live WHERE schedule_id = ?1 AND job_id = ?2",
                params![schedule_id.as_bytes(), run.job_id.as_bytes()],
            )?;
        }
        Ok(closed)
    }

    /// One job's definition.
    pub(crate) fn job(&self, id: JobId) -> StoreResult<Option<Job>> {
        self.one(sql::job_by_id, params![id.as_bytes()], rows::job)
    }

    /// Where one job is.
    pub(crate) fn whereabouts(&self, id: JobId) -> StoreResult<Option<Whereabouts>> {
        Ok(self.one(sql::job_places, params![id.as_bytes()], |row| rows::whereabouts(row, id))?.flatten())
    }
}

/// How a job is closed.
#[derive(Debug)]
pub(crate) struct Closing<'a> {
    pub(crate) job_id: JobId,
    pub(crate) schedule_id: Option<ScheduleId>,
    pub(crate) node_id: Option<NodeId>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) outcome: Outcome,
    pub(crate) error_code: Option<ErrorCode>,
    pub(crate) error: Option<&'a str>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) output: Option<&'a Json>,
    pub(crate) log_ref: Option<&'a str>,
    pub(crate) usage: Option<&'a Json>,
    pub(crate) is_final: bool,
}

/// One job with everything that is known about it, read in one snapshot.
pub(crate) fn read_view(connection: &Connection, id: JobId) -> StoreResult<Option<JobView>> {
    let Some(job) = rows::collect(connection, sql::job_by_id, params![id.as_bytes()], rows::job)?.pop() else {
        return Ok(None);
    };
    let places = rows::collect(connection, sql::job_places, params![id.as_bytes()], |row| rows::whereabouts(row, id))?;
    let lost = || StoreError::Internal(format!("the job {id} is nowhere; run `punctual doctor`"));
    let whereabouts = places.into_iter().flatten().next().ok_or_else(lost)?;
    Ok(Some(JobView { job, whereabouts }))
}

/// A page of the jobs of one schedule.
pub(crate) fn read_schedule_jobs(
    connection: &Connection, id: ScheduleId, before: Option<JobId>, limit: usize,
) -> StoreResult<Vec<JobView>> {
    let before = before.map_or([0xff; 16], |id| *id.as_bytes());
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let ids: Vec<JobId> =
        rows::collect(connection, sql::schedule_jobs_page, params![id.as_bytes(), before, limit], |row| {
            Columns::of(row).id()
        })?;
    ids.into_iter().filter_map(|id| read_view(connection, id).transpose()).collect()
}
