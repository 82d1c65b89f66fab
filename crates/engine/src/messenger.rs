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

/// After so many ends in one report that cannot be stored, the others wait for the next one: a node must hear what it is
/// told meanwhile.
const MOST_BAD: usize = 16;

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
    /// Reports ends; says what became of each, up to the first of those that are to be reported again, and why these are.
    pub(crate) async fn report(&self, reports: &[FinishedRun]) -> (Vec<FinishResult>, Option<StoreError>) {
        let _phase = Phase::enter("finish");
        let mut results = Vec::with_capacity(reports.len());
        let told = self.report_parts(reports, &mut results).await;
        let refused = results.iter().filter(|result| matches!(result, FinishResult::LostLease)).count();
        self.stopwatch.meter.runs_reported(results.len(), refused);
        if !results.is_empty() {
            self.news.ring();
        }
        if refused > 0 {
            tracing::warn!(refused, "reports came too late and were refused; the record stays as it is");
        }
        (results, told.err())
    }

    /// One report that cannot be stored must not hold up the others: it is looked for in the halves.
    async fn report_parts(&self, reports: &[FinishedRun], results: &mut Vec<FinishResult>) -> StoreResult<()> {
        let mut parts = vec![reports];
        let mut bad = 0;
        while let Some(part) = parts.pop() {
            match self.finish(part.to_vec()).await {
                Ok(result) => results.extend(result),
                Err(error @ (StoreError::Internal(_) | StoreError::Invalid(_))) => {
                    if bad == MOST_BAD {
                        return Err(error);
                    }
                    if part.len() > 1 {
                        let (first, rest) = part.split_at(part.len() / 2);
                        parts.extend([rest, first]);
                        continue;
                    }
                    bad += 1;
                    let words = format!("its end could not be stored: {error}");
                    let plain = |run: &FinishedRun| FinishedRun::failed(run.job_id, ErrorCode::Internal, words.clone());
                    results.extend(self.finish(part.iter().map(plain).collect()).await?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
