//! Jobs and their places: queueing, closing, reading, and the head of a serial key.

use crate::error::{Failure, Work};
use crate::params::{Params, params, time};
use crate::rows::{self, value};
use crate::session::{Session, Step};
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::closing::storable_text;
use punctual_core::id::{JobId, NodeId, ScheduleId};
use punctual_core::job::{Job, JobView, NewJob};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{StoreError, StoreResult};
use std::collections::BTreeSet;
use std::time::SystemTime;
use tokio_postgres::Row;
use uuid::Uuid;

/// A job that has no place yet, and the place it is to have.
#[derive(Debug, Clone)]
pub(crate) struct Placing {
    pub(crate) id: JobId,
    pub(crate) lane_id: i64,
    pub(crate) priority: i32,
    /// Behind everything of its priority when absent.
    pub(crate) position: Option<i64>,
    pub(crate) created_at: Timestamp,
    pub(crate) queued_at: Timestamp,
    pub(crate) serial_key: Option<String>,
    pub(crate) schedule_id: Option<ScheduleId>,
    /// Its tags as they are stored.
    pub(crate) tags: Option<String>,
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
    pub(crate) error: Option<String>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) output: Option<&'a str>,
    pub(crate) log_ref: Option<&'a str>,
    pub(crate) usage: Option<&'a str>,
    pub(crate) is_final: bool,
}

impl Closing<'_> {
    /// The end of a job that never started, for a reason that trying again would not change.
    pub(crate) fn unstarted(job_id: JobId, schedule_id: Option<ScheduleId>, code: ErrorCode) -> Self {
        Self {
            job_id,
            schedule_id,
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
        }
    }
}

impl Tx<'_> {
    /// Locks serial keys, in order. Everybody who changes which job of a key is the head, or whether it is free, does
    /// so before he touches a job of the key.
    pub(crate) async fn lock_serial_keys(&self, keys: &BTreeSet<String>) -> Work<()> {
        while !keys.is_empty() {
            let list: Vec<&str> = keys.iter().map(String::as_str).collect();
            let steps = [
                Step::Count(sql::make_serial_keys, params![list.clone()]),
                Step::Rows(sql::lock_serial_keys, params![list]),
            ];
            let locked = self.pipeline(&steps).await?.pop().map_or(0, |answer| answer.rows().len());
            if locked == keys.len() {
                break;
            }
        }
        Ok(())
    }

    /// Lets exactly the head of each key be claimed, or nobody while a job of the key runs.
    ///
    /// Called after everything that changes which job is the head or whether the key is free.
    pub(crate) async fn settle_serial_keys(&self, keys: &BTreeSet<String>) -> Work<()> {
        if !keys.is_empty() {
            self.pipeline(&settling(keys)).await?;
        }
        Ok(())
    }

    /// Puts jobs into their queues, in order.
    pub(crate) async fn queue(&self, jobs: &[Placing]) -> Work<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let params = params![
            jobs.iter().map(|job| job.id.0).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.lane_id).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.priority).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.position).collect::<Vec<_>>(),
            jobs.iter().map(|job| time(job.created_at)).collect::<Vec<_>>(),
            jobs.iter().map(|job| time(job.queued_at)).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.serial_key.as_deref()).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.schedule_id.map(|id| id.0)).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.tags.as_deref()).collect::<Vec<_>>(),
        ];
        self.execute(sql::insert_queued, params).await?;
        Ok(())
    }

    /// A position behind all others.
    pub(crate) async fn next_position(&self) -> Work<i64> {
        let next = "SELECT nextval('punctual_internal.positions') * 1048576";
        let position = self.one(next, Params::default(), value).await?;
        position.ok_or_else(|| Failure::internal("the sequence of positions is gone"))
    }

    /// Makes a queue, if it is not there.
    pub(crate) async fn make_queue(&self, queue: &str) -> Work<()> {
        let make =
            "INSERT INTO punctual_internal.queues (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
        self.execute(make, params![queue, self.at()]).await?;
        Ok(())
    }

    /// Takes a job that has not started out of `delayed` or `queue`; false when it was in neither. The caller holds
    /// the lock of its serial key, and settles it.
    pub(crate) async fn take_waiting(&self, id: JobId) -> Work<bool> {
        let steps = [
            Step::Count("DELETE FROM punctual_internal.delayed WHERE job_id = $1", params![id.0]),
            Step::Count("DELETE FROM punctual_internal.queue WHERE job_id = $1", params![id.0]),
        ];
        Ok(self.pipeline(&steps).await?.iter().any(|answer| answer.count() > 0))
    }

    /// Writes the one run of each job and takes it off its schedule's list of live jobs.
    pub(crate) async fn close(&self, ended: &[Closing<'_>]) -> Work<()> {
        if !ended.is_empty() {
            self.execute(sql::close_runs, closing_params(ended, self.at())).await?;
        }
        Ok(())
    }

    /// One job's definition.
    pub(crate) async fn job(&self, id: JobId) -> Work<Option<Job>> {
        self.one(sql::jobs_by_id, params![vec![id.0]], rows::job).await
    }

    /// One job and where it is.
    pub(crate) async fn job_view(&self, id: JobId) -> Work<Option<JobView>> {
        let found = self.one(sql::job_view, params![id.0], view).await?;
        found.map(|view| view.map_err(|id| Failure::Told(nowhere(id)))).transpose()
    }
}

/// The two statements that settle serial keys; they must stay two, see `hold_serial_others`.
pub(crate) fn settling(keys: &BTreeSet<String>) -> Vec<Step<'static>> {
    let list: Vec<String> = keys.iter().cloned().collect();
    vec![
        Step::Count(sql::hold_serial_others, params![list.clone()]),
        Step::Count(sql::ready_serial_heads, params![list]),
    ]
}

/// The serial keys of jobs that are to be made.
pub(crate) fn serial_keys<'a>(specs: impl IntoIterator<Item = &'a NewJob>) -> BTreeSet<String> {
    specs.into_iter().filter_map(|spec| spec.serial_key.clone()).collect()
}

pub(crate) fn closing_params<'a>(ended: &'a [Closing<'a>], now: SystemTime) -> Params<'a> {
    params![
        now,
        ended.iter().map(|run| run.job_id.0).collect::<Vec<_>>(),
        ended.iter().map(|run| run.schedule_id.map(|id| id.0)).collect::<Vec<_>>(),
        ended.iter().map(|run| run.node_id.map(|id| id.0)).collect::<Vec<_>>(),
        ended.iter().map(|run| run.started_at.map(time)).collect::<Vec<_>>(),
        ended.iter().map(|run| run.outcome.as_str()).collect::<Vec<_>>(),
        ended.iter().map(|run| run.error_code.map(ErrorCode::as_str)).collect::<Vec<_>>(),
        ended.iter().map(|run| run.error.as_deref().map(storable_text)).collect::<Vec<_>>(),
        ended.iter().map(|run| run.exit_code).collect::<Vec<_>>(),
        ended.iter().map(|run| run.output).collect::<Vec<_>>(),
        ended.iter().map(|run| run.log_ref.map(storable_text)).collect::<Vec<_>>(),
        ended.iter().map(|run| run.is_final).collect::<Vec<_>>(),
        ended.iter().map(|run| run.usage).collect::<Vec<_>>(),
    ]
}

/// A job and where it is; the id of one that is nowhere.
fn view(row: &Row) -> Result<Result<JobView, JobId>, rows::Unreadable> {
    let job = rows::job(row)?;
    Ok(match rows::whereabouts(row, job.id)? {
        Some(whereabouts) => Ok(JobView { job, whereabouts }),
        None => Err(job.id),
    })
}

fn nowhere(id: JobId) -> StoreError {
    StoreError::Internal(format!("the job {id} is nowhere; run `punctual doctor`"))
}

/// One job with everything that is known about it.
pub(crate) async fn read_view(session: &Session, id: JobId) -> Work<Option<JobView>> {
    let found = rows::collect(&session.rows(sql::job_view, &params![id.0]).await?, view)?.pop();
    Ok(found.transpose().map_err(nowhere)?)
}

/// Jobs that a statement finds, each with where it is.
pub(crate) async fn read_views(session: &Session, sql: &str, params: Params<'_>) -> Work<Vec<JobView>> {
    let found = rows::collect(&session.rows(sql, &params).await?, view)?;
    Ok(found.into_iter().map(|view| view.map_err(nowhere)).collect::<StoreResult<_>>()?)
}

/// A page of the jobs of one schedule.
pub(crate) async fn read_schedule_jobs(
    session: &Session, id: ScheduleId, before: Option<JobId>, limit: usize,
) -> Work<Vec<JobView>> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let params = params![id.0, before, crate::params::limit(limit)];
    read_views(session, sql::schedule_jobs_page, params).await
}
