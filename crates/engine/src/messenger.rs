//! What goes to the store and back: reports of runs that have ended, and claims of jobs.

use crate::measure::{Stopwatch, tell_claim};
use crate::notify::NewsBell;
use crate::phase::Phase;
use punctual_core::id::ClaimId;
use punctual_core::limits::Claimed;
use punctual_core::meter::StoreVerb;
use punctual_core::run::ErrorCode;
use punctual_core::store::{ClaimRequest, FinishResult, FinishedRun, Lease, Store, StoreError, StoreResult};
use std::sync::Arc;

/// Who carries it, for one exchange: the desk goes on with its runs meanwhile.
pub(crate) struct Messenger {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lease: Lease,
    pub(crate) queues: Vec<String>,
    pub(crate) job_types: Vec<String>,
    pub(crate) stopwatch: Stopwatch,
    pub(crate) news: NewsBell,
}

impl Messenger {
    /// Reports ends; says what became of each.
    pub(crate) async fn report(&self, reports: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
        let _phase = Phase::enter("finish");
        let finish = self.store.finish_runs_if_leased(self.lease, reports.to_vec());
        let results = match self.stopwatch.time(StoreVerb::Finish, finish).await {
            // One report that cannot be stored must not hold up the others.
            Err(StoreError::Internal(_) | StoreError::Invalid(_)) => self.report_one_by_one(reports).await?,
            results => results?,
        };
        let refused = results.iter().filter(|result| matches!(result, FinishResult::LostLease)).count();
        self.stopwatch.meter.runs_reported(results.len(), refused);
        self.news.ring();
        if refused > 0 {
            tracing::warn!(refused, "reports came too late and were refused; the record stays as it is");
        }
        Ok(results)
    }

    async fn report_one_by_one(&self, reports: &[FinishedRun]) -> StoreResult<Vec<FinishResult>> {
        let mut results = Vec::with_capacity(reports.len());
        for report in reports {
            match self.store.finish_runs_if_leased(self.lease, vec![report.clone()]).await {
                Ok(result) => results.extend(result),
                Err(error @ (StoreError::Internal(_) | StoreError::Invalid(_))) => {
                    let words = format!("its end could not be stored: {error}");
                    let plain = FinishedRun::failed(report.job_id, ErrorCode::Internal, words);
                    results.extend(self.store.finish_runs_if_leased(self.lease, vec![plain]).await?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(results)
    }

    /// Claims at most so many jobs.
    pub(crate) async fn claim(&self, limit: usize) -> StoreResult<Claimed> {
        let request = ClaimRequest {
            lease: self.lease,
            claim_id: ClaimId(uuid::Uuid::new_v4()),
            queues: self.queues.clone(),
            job_types: self.job_types.clone(),
            limit,
        };
        let _phase = Phase::enter("claim");
        let claimed = self.stopwatch.time(StoreVerb::Claim, self.store.claim_jobs_if_leased(request)).await?;
        tell_claim(&*self.stopwatch.meter, &claimed);
        Ok(claimed)
    }
}
