//! Ends: closing runs by the lease's holder, retries, recovery of lost nodes, and artifacts.

use crate::error::{is_unique_violation, store_error};
use crate::jobs::Closing;
use crate::rows::{Columns, Unreadable};
use crate::sql;
use crate::tx::{Tx, value};
use jiff::Timestamp;
use punctual_core::closing::{Again, EndFacts, Retry, is_of_interest, is_plain, judge_end, key_after, storable_text};
use punctual_core::id::{JobId, NodeId, ScheduleId};
use punctual_core::job::{Artifact, Job};
use punctual_core::json::Json;
use punctual_core::recovery::{Claim, ClosedRun, Found, judge};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{FinishResult, FinishedRun, Lease, LostNode, Recovered, StoreError, StoreResult};
use punctual_core::upkeep::News;
use rusqlite::{CachedStatement, OptionalExtension, params};

/// What closes runs from whose end nothing else follows, prepared once for a batch.
struct Plain<'a> {
    find: CachedStatement<'a>,
    insert: CachedStatement<'a>,
    /// By the id alone: `find` has looked at the lease.
    drop: CachedStatement<'a>,
}

impl Tx<'_> {
    pub(crate) fn finish_runs(&mut self, lease: Lease, runs: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
        let mut plain = Plain {
            find: self.prepare(sql::plain_running)?,
            insert: self.prepare(sql::insert_run)?,
            drop: self.prepare("DELETE FROM punctual_running WHERE job_id = ?1")?,
        };
        let mut results = Vec::with_capacity(runs.len());
        for run in runs {
            let closed = is_plain(run) && plain.close(lease, run, self.now_us()).map_err(store_error)?;
            results.push(if closed { FinishResult::Closed { retry: None } } else { self.finish(lease, run)? });
        }
        self.tell_flows()?;
        Ok(results)
    }

    /// Closes one run, if the lease holds for it.
    pub(crate) fn finish(&mut self, lease: Lease, run: &FinishedRun) -> StoreResult<FinishResult> {
        if run.again == Again::BySteps {
            return self.begin_flow(lease, run.job_id);
        }
        let params = params![run.job_id.as_bytes(), lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
        let Some(taken) = self.one(sql::take_running, params, TakenRun::read)? else {
            return Ok(FinishResult::LostLease);
        };
        self.close_taken(Some(lease.node_id), &taken, run)
    }

    /// Closes a flow that ran without a node.
    pub(crate) fn finish_flow(&mut self, run: &FinishedRun) -> StoreResult<()> {
        let take = "DELETE FROM punctual_running WHERE job_id = ?1 AND lease_id IS NULL
                    RETURNING started_at, serial_key, schedule_id, cancel_code, cancel_requested_at";
        match self.one(take, params![run.job_id.as_bytes()], TakenRun::read)? {
            Some(taken) => self.close_taken(None, &taken, run).map(drop),
            None => Ok(()),
        }
    }

    /// Closes what was taken out of `running`, with all that follows from it.
    fn close_taken(
        &mut self, node_id: Option<NodeId>, taken: &TakenRun, run: &FinishedRun,
    ) -> StoreResult<FinishResult> {
        let job = self.job_of_failure(run, taken.cancel_requested)?;
        let chance = u64::from_be_bytes(self.id_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let facts = EndFacts { job: job.as_ref(), cancel_code: taken.cancel_code, now: self.now, chance };
        let end = judge_end(run, facts);
        let news = job.as_ref().and_then(|job| News::of_end(job, &end));
        let closed = self.close_once(&Closing {
            job_id: run.job_id,
            schedule_id: taken.schedule_id,
            node_id,
            started_at: Some(taken.started_at),
            outcome: end.outcome,
            error_code: end.error_code,
            error: end.error.as_deref(),
            exit_code: run.exit_code,
            output: run.output.as_ref(),
            log_ref: run.log_ref.as_deref(),
            usage: run.usage.as_ref(),
            is_final: end.retry.is_none(),
        })?;
        if !closed {
            self.settle_serial_key(taken.serial_key.as_deref())?;
            return Ok(FinishResult::AlreadyClosed);
        }
        if let Some(schedule_id) = taken.schedule_id {
            self.record_result(schedule_id, run.job_id, end.outcome, news.is_some())?;
        }
        if let Some(news) = &news {
            self.tell(news)?;
        }
        let after = key_after(job.as_ref(), &end);
        let retry = end.retry.as_ref().map(|retry| self.make_retry(retry)).transpose()?;
        self.hold_or_free(taken.serial_key.as_deref(), run.job_id, after)?;
        self.settle_serial_key(taken.serial_key.as_deref())?;
        match retry {
            Some(retry) => self.pass_step_on(run.job_id, retry)?,
            None => self.note_step(run.job_id, &end, run.output.as_ref())?,
        }
        Ok(FinishResult::Closed { retry })
    }

    /// What a run means for its schedule; a success after a failure that was told is told as well.
    pub(crate) fn record_result(
        &mut self, id: ScheduleId, job: JobId, outcome: Outcome, told: bool,
    ) -> StoreResult<()> {
        let params = params![id.as_bytes(), self.now_us(), outcome.as_str(), told];
        let ended = self.one(sql::record_result, params, |row| Columns::of(row).optional_time())?.flatten();
        match ended {
            Some(since) if outcome == Outcome::Completed => self.tell(&News::recovered(id, job, since)),
            _ => Ok(()),
        }
    }

    /// The job of a run after which something may follow, or whose end is told. Nobody wants that of what was cancelled
    /// or deleted.
    fn job_of_failure(&self, run: &FinishedRun, cancel_requested: bool) -> StoreResult<Option<Job>> {
        if cancel_requested || !is_of_interest(run) {
            return Ok(None);
        }
        let gone = || StoreError::Internal(format!("the job {} of a running run is gone", run.job_id));
        let job = self.job(run.job_id)?.ok_or_else(gone)?;
        Ok(if self.schedule_is_deleted(job.schedule_id)? { None } else { Some(job) })
    }

    /// Makes the one retry of a failed job.
    fn make_retry(&mut self, retry: &Retry) -> StoreResult<JobId> {
        let id = self.insert_and_place(&retry.spec, &retry.origin)?;
        self.execute(
            "INSERT INTO punctual_retries (retry_of, job_id) VALUES (?1, ?2)",
            params![retry.retry_of.as_bytes(), id.as_bytes()],
        )?;
        Ok(id)
    }

    fn schedule_is_deleted(&self, id: Option<ScheduleId>) -> StoreResult<bool> {
        let Some(id) = id else { return Ok(false) };
        let find = "SELECT deleted_at IS NOT NULL FROM punctual_schedules WHERE id = ?1";
        Ok(self.one(find, params![id.as_bytes()], value)?.unwrap_or(false))
    }

    pub(crate) fn recover(&mut self, lost: &[LostNode]) -> StoreResult<Recovered> {
        let mut recovered = Recovered::default();
        for node in lost {
            recovered.nodes += usize::from(self.end_lease_if_still(node)?);
        }
        let orphans = "SELECT job_id, node_id, lease_id FROM punctual_running AS g
                       WHERE g.lease_id IS NOT NULL
                         AND NOT EXISTS (SELECT 1 FROM punctual_leases AS l WHERE l.lease_id = g.lease_id)
                       ORDER BY job_id";
        let orphans: Vec<(JobId, Lease)> = self.all(orphans, [], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, Lease { node_id: c.id()?, lease_id: c.id()? }))
        })?;
        for (id, lease) in orphans {
            self.recover_job(id, lease, &mut recovered)?;
        }
        self.tell_flows()?;
        Ok(recovered)
    }

    /// Ends a lease whose counter has not moved since its observer looked; a node that beat meanwhile is alive.
    fn end_lease_if_still(&mut self, lost: &LostNode) -> StoreResult<bool> {
        let end = "DELETE FROM punctual_leases WHERE node_id = ?1 AND lease_id = ?2 AND counter = ?3";
        let (node, lease) = (lost.lease.node_id, lost.lease.lease_id);
        if self.execute(end, params![node.as_bytes(), lease.as_bytes(), lost.counter])? == 0 {
            return Ok(false);
        }
        let mark = "UPDATE punctual_nodes SET lost_at = ?2 WHERE id = ?1 RETURNING name";
        let name: Option<String> = self.one(mark, params![node.as_bytes(), self.now_us()], value)?;
        self.tell(&News::node_lost(node, name.as_deref().unwrap_or_default()))?;
        Ok(true)
    }

    /// Judges one job whose node is gone, by where its rows are.
    fn recover_job(&mut self, id: JobId, lease: Lease, recovered: &mut Recovered) -> StoreResult<()> {
        let exists = |table: &str| -> StoreResult<bool> {
            let find = format!("SELECT 1 FROM {table} WHERE job_id = ?1");
            Ok(self.one(&find, params![id.as_bytes()], value::<i64>)?.is_some())
        };
        let found = Found {
            claim: Claim::Lost,
            waits: exists("punctual_queue")? || exists("punctual_delayed")?,
            run: if exists("punctual_runs")? { ClosedRun::Settled } else { ClosedRun::None },
        };
        let repair = judge(found);
        if repair.drop_waiting {
            self.take_waiting(id)?;
            recovered.leftovers += 1;
        }
        if let Some(code) = repair.close_as {
            let end = FinishedRun::failed(id, code, "the node that ran it is gone");
            if let FinishResult::Closed { retry } = self.finish(lease, &end)? {
                recovered.closed.push(id);
                recovered.retries.extend(retry);
            }
        } else if repair.drop_claim {
            let drop = "DELETE FROM punctual_running WHERE job_id = ?1 RETURNING serial_key";
            let key: Option<Option<String>> = self.one(drop, params![id.as_bytes()], value)?;
            self.settle_serial_key(key.flatten().as_deref())?;
            recovered.leftovers += 1;
        }
        Ok(())
    }

    pub(crate) fn add_artifacts(&mut self, lease: Lease, job: JobId, artifacts: &[Artifact]) -> StoreResult<()> {
        if !self.is_leased(lease, job)? {
            return Err(StoreError::LostLease);
        }
        for artifact in artifacts {
            self.execute(
                "INSERT INTO punctual_artifacts (job_id, number, name, location, size_bytes, sha256)
                 SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5 FROM punctual_artifacts WHERE job_id = ?1",
                params![
                    job.as_bytes(),
                    artifact.name,
                    artifact.location,
                    i64::try_from(artifact.size_bytes).unwrap_or(i64::MAX),
                    artifact.sha256
                ],
            )?;
        }
        Ok(())
    }
}

impl Plain<'_> {
    /// Closes a run; says whether it was of that kind, and the lease holds for it.
    fn close(&mut self, lease: Lease, run: &FinishedRun, now_us: i64) -> rusqlite::Result<bool> {
        let fence = params![run.job_id.as_bytes(), lease.node_id.as_bytes(), lease.lease_id.as_bytes()];
        let Some(started_at) = self.find.query_row(fence, |row| row.get::<_, i64>(0)).optional()? else {
            return Ok(false);
        };
        let inserted = self.insert.execute(params![
            run.job_id.as_bytes(),
            lease.node_id.as_bytes(),
            started_at,
            now_us,
            Outcome::Completed.as_str(),
            None::<&str>,
            None::<&str>,
            run.exit_code,
            run.output.as_ref().map(Json::as_str),
            run.log_ref.as_deref().map(storable_text),
            true,
            run.usage.as_ref().map(Json::as_str),
        ]);
        match inserted {
            // It has a run already, as a restored backup may hold it.
            Err(error) if is_unique_violation(&error) => Ok(false),
            Err(error) => Err(error),
            Ok(_) => self.drop.execute(params![run.job_id.as_bytes()]).map(|_| true),
        }
    }
}

/// What was taken out of `running`.
struct TakenRun {
    started_at: Timestamp,
    serial_key: Option<String>,
    schedule_id: Option<ScheduleId>,
    cancel_code: Option<ErrorCode>,
    cancel_requested: bool,
}

impl TakenRun {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, Unreadable> {
        let mut c = Columns::of(row);
        Ok(Self {
            started_at: c.time()?,
            serial_key: c.next()?,
            schedule_id: c.optional_id()?,
            cancel_code: c.optional_word()?,
            cancel_requested: c.optional_time()?.is_some(),
        })
    }
}

/// The artifacts of a run.
pub(crate) fn read_artifacts(connection: &rusqlite::Connection, job: JobId) -> StoreResult<Vec<Artifact>> {
    let sql = "SELECT name, location, size_bytes, sha256 FROM punctual_artifacts WHERE job_id = ?1 ORDER BY number";
    crate::rows::collect(connection, sql, params![job.as_bytes()], |row| {
        let mut c = Columns::of(row);
        Ok(Artifact { name: c.next()?, location: c.next()?, size_bytes: c.count()?, sha256: c.next()? })
    })
}
