//! What schedules need against what live nodes offer: marks, and the ends of jobs that waited too long (E06).

use crate::error::{Failure, Work};
use crate::jobs::{Closing, serial_keys};
use crate::params::{Params, params};
use crate::rows::{Columns, value};
use crate::tx::{Tx, in_transaction};
use crate::wake::Wake;
use crate::{PostgresStore, sql};
use async_trait::async_trait;
use punctual_core::firing::Firing;
use punctual_core::id::{JobId, ScheduleId};
use punctual_core::offers::{Offers, OffersSettled, Verdict, given_up_error, gives_up};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::schedule::Schedule;
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::upkeep::News;
use std::collections::BTreeSet;

#[async_trait]
impl Offers for PostgresStore {
    async fn settle_offers(&self, limit: usize) -> StoreResult<OffersSettled> {
        let settled = in_transaction!(&self.shared, |settled| (settled.cleared > 0).then_some(Wake::Plans), |tx| tx
            .settle_offers(limit))?;
        if settled.changed_anything() {
            self.shared.ring();
        }
        Ok(settled)
    }
}

impl Tx<'_> {
    async fn settle_offers(&mut self, limit: usize) -> Work<OffersSettled> {
        let offered = self.offered().await?;
        let in_use: Vec<String> = self.all(sql::job_types_in_use, Params::default(), value).await?;
        let (known, unknown): (Vec<String>, Vec<String>) = in_use.into_iter().partition(|it| offered.contains(it));
        let mut settled = OffersSettled::default();
        for (find, types) in [(sql::marked_schedules, known), (sql::unmarked_schedules, unknown)] {
            if types.is_empty() {
                continue;
            }
            let params = params![types, crate::params::limit(limit)];
            let found: Vec<ScheduleId> = self.all(find, params, |row| Columns::of(row).id()).await?;
            for id in found {
                self.settle_schedule(id, &offered, &mut settled).await?;
            }
        }
        let waiting: Vec<(ScheduleId, JobId)> = self
            .all(sql::jobs_without_executor, Params::default(), |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.id()?))
            })
            .await?;
        for (schedule_id, job_id) in waiting {
            if settled.given_up.len() < limit && self.give_up(schedule_id, job_id, &offered).await? {
                settled.given_up.push(job_id);
            }
        }
        Ok(settled)
    }

    /// The job types that live nodes offer.
    pub(crate) async fn offered(&self) -> Work<BTreeSet<String>> {
        let find = "SELECT DISTINCT json_array_elements_text(n.offers)
                    FROM punctual_internal.leases AS l JOIN punctual_internal.nodes AS n ON n.id = l.node_id";
        Ok(self.all(find, Params::default(), value).await?.into_iter().collect())
    }

    async fn settle_schedule(
        &self, id: ScheduleId, offered: &BTreeSet<String>, settled: &mut OffersSettled,
    ) -> Work<()> {
        let Some(schedule) = self.readable_schedule(id).await? else { return Ok(()) };
        match schedule.judge_offers(offered) {
            Verdict::Leave => {}
            Verdict::Mark(problem) => {
                let mark = "UPDATE punctual_internal.schedule_state
                            SET problem = $2, no_executor_since = $3, next_run_at = NULL WHERE schedule_id = $1";
                self.execute(mark, params![id.0, problem, self.at()]).await?;
                settled.marked += 1;
            }
            Verdict::Clear(next) => {
                let firing = Firing { slots: Vec::new(), next };
                self.write_firing(&schedule, &firing, None, schedule.version).await?;
                settled.cleared += 1;
            }
        }
        Ok(())
    }

    /// A schedule under its lock, unless it is gone or cannot be understood; that is told elsewhere (E02).
    async fn readable_schedule(&self, id: ScheduleId) -> Work<Option<Schedule>> {
        match self.locked_schedule(id).await {
            Err(Failure::Told(StoreError::Internal(_))) => Ok(None),
            found => found,
        }
    }

    /// Ends a job that has waited too long for a node.
    async fn give_up(&self, schedule_id: ScheduleId, id: JobId, offered: &BTreeSet<String>) -> Work<bool> {
        let Some(schedule) = self.readable_schedule(schedule_id).await? else { return Ok(false) };
        let (Some(marked_at), Some(job)) = (schedule.state.no_executor_since, self.job(id).await?) else {
            return Ok(false);
        };
        let job_type = job.spec.target.job_type();
        let over = gives_up(schedule.definition.missed, marked_at, job.created_at, self.now);
        if !over || offered.contains(&job_type) {
            return Ok(false);
        }
        let keys = serial_keys([&job.spec]);
        self.lock_serial_keys(&keys).await?;
        if !self.take_waiting(id).await? {
            return Ok(false);
        }
        let error = given_up_error(&job_type);
        let closing = Closing {
            outcome: Outcome::Failed,
            error: Some(error.clone()),
            ..Closing::unstarted(id, Some(schedule_id), ErrorCode::NoExecutor)
        };
        self.close(&[closing]).await?;
        let failed = vec![Outcome::Failed.as_str()];
        let (told, ended) = (vec![true], vec![false]);
        let params = params![
            self.at(),
            vec![schedule_id.0],
            failed,
            ended.clone(),
            vec![1_i64],
            told,
            ended,
            vec![self.notice_id().0],
            vec![id.0],
        ];
        self.execute(sql::record_results, params).await?;
        self.tell(News::run_failed(&job, ErrorCode::NoExecutor, Some(&error))).await?;
        self.settle_serial_keys(&keys).await?;
        Ok(true)
    }
}
