//! Forgetting: whole partitions where all is old enough, row by row where only a part is.

use crate::error::Work;
use crate::params::{Params, params, time};
use crate::rows::{Columns, value};
use crate::session::Step;
use crate::sql;
use crate::tx::Tx;
use punctual_core::id::{JobId, NoticeId, ScheduleId};
use punctual_core::store::{PruneFrom, Pruned, Retention};
use std::time::SystemTime;
use uuid::Uuid;

/// What is forgotten with jobs: their runs first, because the other ledgers refuse to let go of what belongs to one,
/// and the jobs themselves last.
const FORGOTTEN: [&str; 13] = [
    "DELETE FROM punctual_internal.runs WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.artifacts WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.artifact_contents WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.run_logs WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.run_progress WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.step_memos WHERE root_job_id = ANY ($1)",
    "DELETE FROM punctual_internal.retries WHERE retry_of = ANY ($1)",
    "DELETE FROM punctual_internal.job_keys WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.flow_jobs WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.flow_items WHERE flow_id = ANY ($1)",
    "DELETE FROM punctual_internal.flow_steps WHERE flow_id = ANY ($1)",
    "DELETE FROM punctual_internal.flow_runs WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.jobs WHERE id = ANY ($1)",
];

impl Tx<'_> {
    /// Drops partitions that lie before the marks, a short transaction of its own because the ledgers are locked
    /// meanwhile; what must stay is carried over first.
    pub(crate) async fn drop_partitions(&mut self, retention: Retention) -> Work<Pruned> {
        let (runs, slots) = (time(retention.runs_before), time(retention.slots_before));
        let old = "SELECT EXISTS (SELECT 1 FROM punctual_internal.partitions
                                  WHERE to_at <= CASE parent WHEN 'slots' THEN $2 ELSE $1 END)";
        if retention.limit == 0 || !self.one(old, params![runs, slots], value).await?.unwrap_or(false) {
            return Ok(Pruned::default());
        }
        self.announce(&retention, false).await?;
        let carry = crate::params::limit(retention.limit).min(100_000);
        let drop = "SELECT punctual_internal.drop_old_jobs($1, $2, $3, $4)";
        let params = params![runs, time(retention.failed_before), i64::from(retention.keep_last), carry];
        let jobs: Option<i64> = self.one(drop, params, value).await?;
        let drop = "SELECT punctual_internal.drop_old_slots($1, $2)";
        let slots: Option<i64> = self.one(drop, params![slots, carry], value).await?;
        let count = |rows: Option<i64>| usize::try_from(rows.unwrap_or(0)).unwrap_or(0);
        if count(jobs) > 0 {
            self.execute(sql::prune_job_keys, Params::default()).await?;
            self.execute(sql::prune_flows, Params::default()).await?;
            self.execute(sql::prune_flow_jobs, Params::default()).await?;
        }
        Ok(Pruned { jobs: count(jobs), slots: count(slots), ..Pruned::default() })
    }

    /// Forgets row by row; looks at no more than was asked for.
    pub(crate) async fn prune_rows(&mut self, retention: Retention) -> Work<Pruned> {
        if retention.limit == 0 {
            return Ok(Pruned::default());
        }
        // The ledgers refuse every DELETE that is not announced here, and this is over before anybody else sees it.
        self.announce(&retention, true).await?;
        let limit = crate::params::limit(retention.limit);
        let mut pruned = Pruned::default();
        let job = self.prune_runs(&retention, &mut pruned).await?;
        let schedule = self.prune_slots(&retention, &mut pruned).await?;
        let before = NoticeId::at(retention.slots_before, [0; 8]);
        // What came of them goes with them; there is far less of it.
        self.execute(sql::prune_alerts, params![before.0, limit]).await?;
        self.execute(sql::prune_deliveries, params![before.0, limit]).await?;
        let notices = self.execute(sql::prune_notices, params![before.0, limit]).await?;
        pruned.notices = usize::try_from(notices).unwrap_or(usize::MAX);
        let forget = "SELECT punctual_internal.forget_graph_runs($1, $2)";
        let gone: Option<i64> = self.one(forget, params![time(retention.graph_runs_before()), limit], value).await?;
        pruned.graph_runs = usize::try_from(gone.unwrap_or(0)).unwrap_or(0);
        self.prune_serial_keys(limit).await?;
        // Whoever is about to use one holds its lock, and it is passed over.
        let over = "DELETE FROM punctual_internal.unique_keys WHERE key IN (
                      SELECT key FROM punctual_internal.unique_keys WHERE until_at <= $1 OR until_at IS NULL
                      ORDER BY key LIMIT $2 FOR UPDATE SKIP LOCKED)";
        self.execute(over, params![self.at(), limit]).await?;
        self.execute("UPDATE punctual_internal.retention SET pruning = false", params![]).await?;
        let more =
            job.is_some() || schedule.is_some() || [pruned.notices, pruned.graph_runs].contains(&retention.limit);
        let from = retention.from;
        pruned.next = more.then(|| PruneFrom { job: job.or(from.job), schedule: schedule.or(from.schedule) });
        Ok(pruned)
    }

    /// Looks at the next runs; says where to go on if there may be more.
    async fn prune_runs(&self, retention: &Retention, pruned: &mut Pruned) -> Work<Option<JobId>> {
        let params = params![
            time(retention.runs_before),
            time(retention.failed_before),
            i64::from(retention.keep_last),
            retention.from.job.map_or(Uuid::nil(), |id| id.0),
            JobId::behind(retention.runs_horizon()).0,
            crate::params::limit(retention.limit),
        ];
        let seen: Vec<(JobId, bool)> = self
            .all(sql::prune_candidates, params, |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.next()?))
            })
            .await?;
        let old: Vec<Uuid> = seen.iter().filter(|(_, may_go)| *may_go).map(|(id, _)| id.0).collect();
        if !old.is_empty() {
            let steps: Vec<Step<'_>> =
                FORGOTTEN.iter().map(|forget| Step::Count(forget, params![old.clone()])).collect();
            let gone = self.pipeline(&steps).await?.last().map_or(0, crate::session::Answer::count);
            pruned.jobs = usize::try_from(gone).unwrap_or(usize::MAX);
        }
        Ok(seen.last().filter(|_| seen.len() == retention.limit).map(|(id, _)| *id))
    }

    async fn prune_slots(&self, retention: &Retention, pruned: &mut Pruned) -> Work<Option<ScheduleId>> {
        let from = retention.from.schedule.map_or(Uuid::nil(), |id| id.0);
        let params = params![from, time(retention.slots_before), crate::params::limit(retention.limit)];
        let old: Vec<(ScheduleId, SystemTime)> = self
            .all(sql::prune_slots, params, |row| {
                let mut c = Columns::of(row);
                Ok((c.id()?, c.next()?))
            })
            .await?;
        if !old.is_empty() {
            let forget = "DELETE FROM punctual_internal.slots AS s
                          USING unnest($1::uuid[], $2::timestamptz[]) AS w (schedule_id, slot_at)
                          WHERE s.schedule_id = w.schedule_id AND s.slot_at = w.slot_at";
            let (ids, slots): (Vec<Uuid>, Vec<SystemTime>) = old.iter().map(|(id, slot_at)| (id.0, *slot_at)).unzip();
            self.execute(forget, params![ids, slots]).await?;
        }
        pruned.slots = old.len();
        Ok(old.last().filter(|_| old.len() == retention.limit).map(|(id, _)| *id))
    }

    /// Forgets serial keys that nobody uses any more. Looked at again under the lock, in a statement that sees what
    /// was committed meanwhile.
    async fn prune_serial_keys(&self, limit: i64) -> Work<()> {
        let unused: Vec<String> = self.all(sql::unused_serial_keys, params![limit], value).await?;
        if !unused.is_empty() {
            self.execute(sql::prune_serial_keys, params![unused]).await?;
        }
        Ok(())
    }

    /// Raises the marks, and says whether rows are deleted below them by this transaction.
    async fn announce(&self, retention: &Retention, pruning: bool) -> Work<()> {
        let announce =
            "UPDATE punctual_internal.retention SET before = greatest(before, $2), pruning = $3 WHERE ledger = $1";
        self.execute(announce, params!["runs", time(retention.runs_horizon()), pruning]).await?;
        self.execute(announce, params!["slots", time(retention.slots_before), pruning]).await?;
        Ok(())
    }
}
