//! What schedules need against what live nodes offer: marks, and the ends of jobs that waited too long (E06).

use crate::jobs::Closing;
use crate::rows::{self, Columns};
use crate::tx::{Tx, value};
use crate::{SqliteStore, claim, sql};
use async_trait::async_trait;
use punctual_core::firing::Firing;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::offers::{Offers, OffersSettled, Verdict, given_up_error, gives_up};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::Schedule;
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::upkeep::News;
use rusqlite::{Connection, params};
use std::collections::BTreeSet;

#[async_trait]
impl Offers for SqliteStore {
    async fn settle_offers(&self, limit: usize) -> StoreResult<OffersSettled> {
        // Looked for beside the writer, because nearly always there is nothing to do.
        let found = self.read(move |connection| Found::read(connection, limit)).await?;
        if found.is_nothing() {
            return Ok(OffersSettled::default());
        }
        self.write_and_wake(move |tx| tx.settle_offers(&found, limit)).await
    }
}

/// What looks as if it had to be changed.
struct Found {
    offered: BTreeSet<String>,
    schedules: Vec<ScheduleId>,
    waiting: Vec<(ScheduleId, JobId)>,
}

impl Found {
    fn read(connection: &Connection, limit: usize) -> StoreResult<Self> {
        let offered = offered(connection)?;
        let types: Vec<String> = rows::collect(connection, sql::job_types_in_use, [], value)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut schedules = Vec::new();
        for job_type in types {
            let find = if offered.contains(&job_type) { sql::marked_schedules } else { sql::unmarked_schedules };
            schedules.extend(rows::collect(connection, find, params![job_type, most], |row| {
                Columns::of(row).id::<ScheduleId>()
            })?);
        }
        let waiting = rows::collect(connection, sql::jobs_without_executor, [], |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.id()?))
        })?;
        schedules.truncate(limit);
        Ok(Self { offered, schedules, waiting })
    }

    fn is_nothing(&self) -> bool {
        self.schedules.is_empty() && self.waiting.is_empty()
    }
}

/// The job types that live nodes offer.
pub(crate) fn offered(connection: &Connection) -> StoreResult<BTreeSet<String>> {
    Ok(claim::read_pulses(connection)?.into_iter().flat_map(|pulse| pulse.offers).collect())
}

impl Tx<'_> {
    fn settle_offers(&mut self, found: &Found, limit: usize) -> StoreResult<OffersSettled> {
        let mut settled = OffersSettled::default();
        for id in &found.schedules {
            // Everything is judged again: it may have changed since it was found.
            let Some(schedule) = self.readable_schedule(*id)? else { continue };
            match schedule.judge_offers(&found.offered) {
                Verdict::Leave => {}
                Verdict::Mark(problem) => settled.marked += self.mark(*id, &problem)?,
                Verdict::Clear(next) => {
                    self.write_firing(&schedule, &Firing { slots: Vec::new(), next }, None)?;
                    settled.cleared += 1;
                }
            }
        }
        for (schedule_id, job_id) in &found.waiting {
            if settled.given_up.len() >= limit {
                break;
            }
            let Some(schedule) = self.readable_schedule(*schedule_id)? else { continue };
            if self.give_up(&schedule, *job_id, &found.offered)? {
                settled.given_up.push(*job_id);
            }
        }
        Ok(settled)
    }

    /// A schedule, unless it is gone or cannot be understood; that is told elsewhere (E02).
    fn readable_schedule(&self, id: ScheduleId) -> StoreResult<Option<Schedule>> {
        match self.schedule(id) {
            Ok(schedule) => Ok(Some(schedule)),
            Err(StoreError::NotFound { .. } | StoreError::Internal(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn mark(&self, id: ScheduleId, problem: &str) -> StoreResult<usize> {
        let mark = "UPDATE punctual_schedule_state SET problem = ?2, no_executor_since = ?3, next_run_at = NULL
                    WHERE schedule_id = ?1";
        self.execute(mark, params![id.as_bytes(), problem, self.now_us()])
    }

    /// Ends a job that has waited too long for a node.
    fn give_up(&mut self, schedule: &Schedule, id: JobId, offered: &BTreeSet<String>) -> StoreResult<bool> {
        let (Some(marked_at), Some(job)) = (schedule.state.no_executor_since, self.job(id)?) else { return Ok(false) };
        let job_type = job.spec.target.job_type();
        let over = gives_up(schedule.definition.missed, marked_at, job.created_at, self.now);
        if !over || offered.contains(&job_type) || !self.take_waiting(id)? {
            return Ok(false);
        }
        let error = given_up_error(&job_type);
        self.close(&Closing {
            job_id: id,
            schedule_id: Some(schedule.id),
            node_id: None,
            started_at: None,
            outcome: Outcome::Failed,
            error_code: Some(ErrorCode::NoExecutor),
            error: Some(&error),
            exit_code: None,
            output: None,
            usage: None,
            log_ref: None,
            is_final: true,
        })?;
        self.record_result(schedule.id, id, Outcome::Failed, true)?;
        self.tell(&News::run_failed(&job, ErrorCode::NoExecutor, Some(&error)))?;
        Ok(true)
    }
}
