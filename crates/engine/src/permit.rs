//! The worker's look at a job's grant, right before the target is called (A09). The execution service looks again, by
//! the same function.

use jiff::SignedDuration;
use punctual_core::grant::{self, Wanted};
use punctual_core::job::Job;
use punctual_core::store::{FinishedRun, Store, StoreResult};
use punctual_core::target::Target;

/// How long a job waits whose grant could not be read.
const SETBACK: SignedDuration = SignedDuration::from_secs(5);

/// Whether the job may be run; how its run ends if not. What needs no grant and has none is not asked about.
pub(crate) async fn ask(store: &dyn Store, job: &Job) -> Result<(), FinishedRun> {
    let graph = match &job.spec.target {
        Target::Graph(graph) => Some(graph.id.as_str()),
        _ => None,
    };
    if graph.is_none() && job.spec.grant_id.is_none() {
        return Ok(());
    }
    match look(store, job, graph).await {
        Ok(allowed) => allowed.map_err(|denied| FinishedRun::failed(job.id, denied.code, denied.words)),
        Err(error) => {
            let words = format!("its grant could not be read, so nothing was begun: {error}");
            Err(FinishedRun::snoozed(job.id, SETBACK, words))
        }
    }
}

async fn look(store: &dyn Store, job: &Job, graph: Option<&str>) -> StoreResult<Result<(), grant::Denied>> {
    let found = match job.spec.grant_id {
        Some(id) => store.grant(id).await?,
        None => None,
    };
    // A job that is nobody's has no grant of anybody.
    let owner = Some(job.spec.owner.as_deref().unwrap_or_default());
    Ok(grant::check(found.as_ref(), Wanted { owner, graph }, store.now().await?))
}
