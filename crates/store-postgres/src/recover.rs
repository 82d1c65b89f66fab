//! Recovery of lost nodes: what they left is judged once, whoever else recovers at the same time.

use crate::error::Work;
use crate::finish::{taken_run, taking};
use crate::params::{Params, params};
use crate::rows::{self, Columns, Unreadable, value};
use crate::session::Answer;
use crate::sql;
use crate::tx::Tx;
use punctual_core::id::JobId;
use punctual_core::recovery::{Claim, ClosedRun, Found, Repair, judge};
use punctual_core::store::{FinishResult, FinishedRun, Lease, LostNode, Recovered};
use punctual_core::upkeep::News;
use std::collections::BTreeSet;
use tokio_postgres::Row;

/// A running job whose lease is gone, and what is to be done about it.
struct Orphan {
    id: JobId,
    lease: Lease,
    repair: Repair,
}

impl Tx<'_> {
    pub(crate) async fn recover(&mut self, lost: &[LostNode]) -> Work<Recovered> {
        let mut recovered = Recovered::default();
        for node in lost {
            recovered.nodes += usize::from(self.end_lease_if_still(node).await?);
        }
        let find = "SELECT serial_key FROM punctual_internal.running AS g
                    WHERE serial_key IS NOT NULL AND lease_id IS NOT NULL
                      AND NOT EXISTS (SELECT 1 FROM punctual_internal.leases AS l WHERE l.lease_id = g.lease_id)";
        let keys: BTreeSet<String> = self.all(find, Params::default(), value).await?.into_iter().collect();
        self.lock_serial_keys(&keys).await?;
        let orphans = self.all(sql::orphans, Params::default(), orphan).await?;
        for orphan in &orphans {
            self.repair(orphan, &mut recovered).await?;
        }
        self.settle_serial_keys(&keys).await?;
        self.close_lost(&orphans, &mut recovered).await?;
        Ok(recovered)
    }

    /// Ends a lease whose counter has not moved since its observer looked; a node that beat meanwhile is alive.
    async fn end_lease_if_still(&self, lost: &LostNode) -> Work<bool> {
        let end = "DELETE FROM punctual_internal.leases WHERE node_id = $1 AND lease_id = $2 AND counter = $3";
        let (node, lease) = (lost.lease.node_id.0, lost.lease.lease_id.0);
        if self.execute(end, params![node, lease, lost.counter]).await? == 0 {
            return Ok(false);
        }
        let mark = "UPDATE punctual_internal.nodes SET lost_at = $2 WHERE id = $1 RETURNING name";
        let name: Option<String> = self.one(mark, params![node, self.at()], value).await?;
        self.tell(News::node_lost(lost.lease.node_id, name.as_deref().unwrap_or_default())).await?;
        Ok(true)
    }

    /// Takes away what is left over of one job.
    async fn repair(&self, orphan: &Orphan, recovered: &mut Recovered) -> Work<()> {
        if orphan.repair.drop_waiting {
            self.take_waiting(orphan.id).await?;
            recovered.leftovers += 1;
        }
        if orphan.repair.drop_claim && orphan.repair.close_as.is_none() {
            let drop = "DELETE FROM punctual_internal.running WHERE job_id = $1";
            self.execute(drop, params![orphan.id.0]).await?;
            recovered.leftovers += 1;
        }
        Ok(())
    }

    /// Closes what was running as its holder would have. In the order of the jobs, whoever held them, so that their
    /// retries stand in the same order as on SQLite; neighbours under one lease go together.
    async fn close_lost(&self, orphans: &[Orphan], recovered: &mut Recovered) -> Work<()> {
        for held in orphans.chunk_by(|a, b| a.lease == b.lease) {
            let ends: Vec<FinishedRun> = held
                .iter()
                .filter_map(|orphan| Some((orphan.id, orphan.repair.close_as?)))
                .map(|(id, code)| FinishedRun::failed(id, code, "the node that ran it is gone"))
                .collect();
            if !ends.is_empty() {
                self.close_as_holder(held[0].lease, &ends, recovered).await?;
            }
        }
        Ok(())
    }

    async fn close_as_holder(&self, lease: Lease, runs: &[FinishedRun], recovered: &mut Recovered) -> Work<()> {
        let ids = runs.iter().map(|run| run.job_id.0).collect();
        let taken = self.pipeline(&taking(ids, lease)).await?.pop().map(Answer::rows).unwrap_or_default();
        let taken = rows::collect(&taken, taken_run)?.into_iter().collect();
        let mut ends = self.judge_ends(Some(lease.node_id), runs, taken, false).await?;
        self.pipeline(&ends.steps(self.at())).await?;
        self.tell_flows(std::mem::take(&mut ends.told)).await?;
        for (run, result) in runs.iter().zip(&ends.results) {
            if let FinishResult::Closed { retry } = result {
                recovered.closed.push(run.job_id);
                recovered.retries.extend(*retry);
            }
        }
        Ok(())
    }
}

fn orphan(row: &Row) -> Result<Orphan, Unreadable> {
    let mut c = Columns::of(row);
    let (id, lease) = (c.id()?, Lease { node_id: c.id()?, lease_id: c.id()? });
    let (waits, ended) = (c.next()?, c.next()?);
    let run = if ended { ClosedRun::Settled } else { ClosedRun::None };
    Ok(Orphan { id, lease, repair: judge(Found { claim: Claim::Lost, waits, run }) })
}
