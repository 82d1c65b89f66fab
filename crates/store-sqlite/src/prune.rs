//! Forgetting: what no rule of retention keeps, in small steps, and never what uniqueness needs.

use crate::rows::Columns;
use crate::sql;
use crate::tx::Tx;
use punctual_core::id::{JobId, NoticeId, ScheduleId};
use punctual_core::store::{PruneFrom, Pruned, Retention, StoreResult};
use rusqlite::params;

/// What goes with a job, its run first: the other ledgers refuse to let go of what belongs to one.
const FORGOTTEN: [&str; 13] = [
    "punctual_runs WHERE job_id",
    "punctual_artifacts WHERE job_id",
    "punctual_artifact_contents WHERE job_id",
    "punctual_run_logs WHERE job_id",
    "punctual_run_progress WHERE job_id",
    "punctual_step_memos WHERE root_job_id",
    "punctual_retries WHERE retry_of",
    "punctual_job_keys WHERE job_id",
    "punctual_unique_keys WHERE job_id",
    "punctual_flow_jobs WHERE job_id",
    "punctual_flow_items WHERE flow_id",
    "punctual_flow_steps WHERE flow_id",
    "punctual_flow_runs WHERE job_id",
];

impl Tx<'_> {
    pub(crate) fn prune_history(&mut self, retention: Retention) -> StoreResult<Pruned> {
        if retention.limit == 0 {
            return Ok(Pruned::default());
        }
        // The ledgers refuse every DELETE that is not announced here, and this is over before anybody else sees it.
        let announce = "UPDATE punctual_retention SET before = max(before, ?2), pruning = 1 WHERE ledger = ?1";
        self.execute(announce, params!["runs", retention.runs_horizon().as_microsecond()])?;
        self.execute(announce, params!["slots", retention.slots_before.as_microsecond()])?;
        let mut pruned = Pruned::default();
        let job = self.prune_runs(&retention, &mut pruned)?;
        let schedule = self.prune_slots(&retention, &mut pruned)?;
        pruned.notices = self.prune_notices(&retention)?;
        pruned.graph_runs = self.prune_graph_runs(&retention)?;
        let over = "DELETE FROM punctual_unique_keys WHERE key IN (
                      SELECT key FROM punctual_unique_keys WHERE until_at <= ?1 LIMIT ?2)";
        self.execute(over, params![self.now_us(), limit(&retention)])?;
        self.execute("UPDATE punctual_retention SET pruning = 0", [])?;
        let more =
            job.is_some() || schedule.is_some() || [pruned.notices, pruned.graph_runs].contains(&retention.limit);
        let from = retention.from;
        pruned.next = more.then(|| PruneFrom { job: job.or(from.job), schedule: schedule.or(from.schedule) });
        Ok(pruned)
    }

    /// Looks at the next runs; says where to go on if there may be more.
    fn prune_runs(&mut self, retention: &Retention, pruned: &mut Pruned) -> StoreResult<Option<JobId>> {
        let behind = JobId::behind(retention.runs_horizon());
        let params = params![
            retention.runs_before.as_microsecond(),
            retention.failed_before.as_microsecond(),
            retention.keep_last,
            retention.from.job.map_or([0; 16], |id| *id.as_bytes()),
            behind.as_bytes(),
            limit(retention),
        ];
        let seen: Vec<(JobId, bool)> = self.all(sql::prune_candidates, params, |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.next()?))
        })?;
        for (id, _) in seen.iter().filter(|(_, may_go)| *may_go) {
            for table in FORGOTTEN {
                self.execute(&format!("DELETE FROM {table} = ?1"), params![id.as_bytes()])?;
            }
            self.execute("DELETE FROM punctual_jobs WHERE id = ?1", params![id.as_bytes()])?;
            pruned.jobs += 1;
        }
        Ok(seen.last().filter(|_| seen.len() == retention.limit).map(|(id, _)| *id))
    }

    fn prune_slots(&mut self, retention: &Retention, pruned: &mut Pruned) -> StoreResult<Option<ScheduleId>> {
        let from = retention.from.schedule.map_or([0; 16], |id| *id.as_bytes());
        let params = params![from, retention.slots_before.as_microsecond(), limit(retention)];
        let old: Vec<(ScheduleId, i64)> = self.all(sql::prune_slots, params, |row| {
            let mut c = Columns::of(row);
            Ok((c.id()?, c.next()?))
        })?;
        let forget = "DELETE FROM punctual_slots WHERE schedule_id = ?1 AND slot_at = ?2";
        for (id, slot_at) in &old {
            self.execute(forget, params![id.as_bytes(), slot_at])?;
        }
        pruned.slots = old.len();
        Ok(old.last().filter(|_| old.len() == retention.limit).map(|(id, _)| *id))
    }

    fn prune_graph_runs(&self, retention: &Retention) -> StoreResult<usize> {
        let forget = "DELETE FROM punctual_graph_runs WHERE id IN (
                        SELECT id FROM punctual_graph_runs WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2)";
        self.execute(forget, params![retention.graph_runs_before().as_microsecond(), limit(retention)])
    }

    fn prune_notices(&self, retention: &Retention) -> StoreResult<usize> {
        let before = NoticeId::at(retention.slots_before, [0; 8]);
        let forget = |sql| self.execute(sql, params![before.as_bytes(), limit(retention)]);
        // What came of them goes with them; there is far less of it.
        forget(sql::prune_alerts)?;
        forget(sql::prune_deliveries)?;
        forget(sql::prune_notices)
    }
}

fn limit(retention: &Retention) -> i64 {
    i64::try_from(retention.limit).unwrap_or(i64::MAX)
}
