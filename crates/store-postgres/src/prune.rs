//! Forgetting: whole partitions where all is old enough, row by row where only a part is.

use crate::error::Work;
use crate::params::{Params, params, time};
use crate::rows::{Columns, value};
use crate::session::Step;
use crate::sql;
use crate::tx::Tx;
use jiff::Timestamp;
use punctual_core::id::JobId;
use punctual_core::store::{Pruned, Retention};
use uuid::Uuid;

/// What is forgotten with jobs: their runs first, because the other ledgers refuse to let go of what belongs to one,
/// and the jobs themselves last.
const FORGOTTEN: [&str; 9] = [
    "DELETE FROM punctual_internal.runs WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.artifacts WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.artifact_contents WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.run_logs WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.run_progress WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.step_memos WHERE root_job_id = ANY ($1)",
    "DELETE FROM punctual_internal.retries WHERE retry_of = ANY ($1)",
    "DELETE FROM punctual_internal.job_keys WHERE job_id = ANY ($1)",
    "DELETE FROM punctual_internal.jobs WHERE id = ANY ($1)",
];

impl Tx<'_> {
    /// Drops partitions that lie before the marks, a short transaction of its own because the ledgers are locked
    /// meanwhile; what must stay is carried over first.
    pub(crate) async fn drop_partitions(&mut self, retention: Retention) -> Work<Pruned> {
        self.announce(retention).await?;
        let carry = crate::params::limit(retention.limit).min(100_000);
        let old = "SELECT EXISTS (SELECT 1 FROM punctual_internal.partitions
                                  WHERE to_at <= CASE parent WHEN 'slots' THEN $2 ELSE $1 END)";
        let marks = params![time(retention.runs_before), time(retention.slots_before)];
        if retention.limit == 0 || !self.one(old, marks, value).await?.unwrap_or(false) {
            return Ok(Pruned::default());
        }
        let drop = |ledger: &str| format!("SELECT punctual_internal.drop_old_{ledger}($1, $2)");
        let jobs: Option<i64> = self.one(&drop("jobs"), params![time(retention.runs_before), carry], value).await?;
        let slots: Option<i64> = self.one(&drop("slots"), params![time(retention.slots_before), carry], value).await?;
        let count = |rows: Option<i64>| usize::try_from(rows.unwrap_or(0)).unwrap_or(0);
        if count(jobs) > 0 {
            self.execute(sql::prune_job_keys, Params::default()).await?;
        }
        Ok(Pruned { jobs: count(jobs), slots: count(slots) })
    }

    /// Forgets row by row, at most as many as were asked for.
    pub(crate) async fn prune_rows(&mut self, retention: Retention) -> Work<Pruned> {
        self.announce(retention).await?;
        let limit = crate::params::limit(retention.limit);
        let (runs_before, slots_before) = (time(retention.runs_before), time(retention.slots_before));
        let params = params![runs_before, limit, id_after(retention.runs_before)];
        let old: Vec<Uuid> = self.all(sql::prune_candidates, params, |row| Columns::of(row).next()).await?;
        let mut jobs = 0;
        if !old.is_empty() {
            let steps: Vec<Step<'_>> =
                FORGOTTEN.iter().map(|forget| Step::Count(forget, params![old.clone()])).collect();
            jobs = self.pipeline(&steps).await?.last().map_or(0, crate::session::Answer::count);
        }
        let slots = self.execute(sql::prune_slots, params![slots_before, limit]).await?;
        self.prune_serial_keys(limit).await?;
        let count = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(Pruned { jobs: count(jobs), slots: count(slots) })
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

    /// The ledgers refuse every DELETE that has not been announced here.
    async fn announce(&self, retention: Retention) -> Work<()> {
        let announce = "UPDATE punctual_internal.retention SET before = greatest(before, $2) WHERE ledger = $1";
        self.execute(announce, params!["runs", time(retention.runs_before)]).await?;
        self.execute(announce, params!["slots", time(retention.slots_before)]).await?;
        Ok(())
    }
}

/// Every id made before an instant is smaller than this one; ids order by milliseconds first.
fn id_after(at: Timestamp) -> Uuid {
    let millis = JobId::at(at, [0; 8]).0.as_u128() >> 80;
    Uuid::from_u128((millis + 1) << 80)
}
