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
        let mut results = Vec::with_capacity(reports.len());
        let mut parts = vec![reports];
        while let Some(part) = parts.pop() {
            match self.finish(part.to_vec()).await {
                Ok(result) => results.extend(result),
                // One report that cannot be stored must not hold up the others: it is looked for in the halves.
                Err(StoreError::Internal(_) | StoreError::Invalid(_)) if part.len() > 1 => {
                    let (first, rest) = part.split_at(part.len() / 2);
                    parts.extend([rest, first]);
                }
                Err(error @ (StoreError::Internal(_) | StoreError::Invalid(_))) => {
                    let words = format!("its end could not be stored: {error}");
                    let plain = |run: &FinishedRun| FinishedRun::failed(run.job_id, ErrorCode::Internal, words.clone());
                    results.extend(self.finish(part.iter().map(plain).collect()).await?);
                }
                Err(error) => return Err(error),
            }
        }
        let refused = results.iter().filter(|result| matches!(result, FinishResult::LostLease)).count();
        self.stopwatch.meter.runs_reported(results.len(), refused);
        self.news.ring();
        if refused > 0 {
            tracing::warn!(refused, "reports came too late and were refused; the record stays as it is");
        }
        Ok(results)
    }

    async fn finish(&self, runs: Vec<FinishedRun>) -> StoreResult<Vec<FinishResult>> {
        self.stopwatch.time(StoreVerb::Finish, self.store.finish_runs_if_leased(self.lease, runs)).await
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
