//! The provider `flow:`: a graph that is a flow of this installation, run once for each run id.

use async_trait::async_trait;
use jiff::SignedDuration;
use punctual_core::graph::{GraphEnd, GraphExecutor, GraphRun, Unknown, Used};
use punctual_core::id::{GraphRunId, JobId};
use punctual_core::job::{JobState, JobView, NewJob};
use punctual_core::run::{ErrorCode, Outcome};
use punctual_core::store::{Store, StoreError, StoreResult};
use punctual_core::target::Target;
use punctual_core::unique::Unique;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// How often a flow is looked at whose end may come from another process.
const LOOK: Duration = Duration::from_millis(250);

/// For how long a run id finds its job again: longer than any run is kept.
const KNOWN: SignedDuration = SignedDuration::from_hours(24 * 365 * 5);

/// How many flows are listed at once.
const PAGE: usize = 500;

/// Runs flows as graphs. Their steps are jobs under the run's grant, which is checked before each of them.
pub(crate) struct FlowGraphs {
    store: Arc<dyn Store>,
    /// The jobs of the runs that are waited for here.
    under_way: Mutex<HashMap<GraphRunId, JobId>>,
}

impl FlowGraphs {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, under_way: Mutex::default() }
    }

    /// The job of a run: made by whoever comes first, and found by everybody else.
    async fn begin(&self, run: &GraphRun) -> StoreResult<JobId> {
        let unique = Unique {
            key: Some(format!("graph run {}", run.run_id)),
            period: KNOWN,
            states: Some(JobState::ALL.to_vec()),
        };
        let job = NewJob {
            input: run.input.clone(),
            unique: Some(unique),
            grant_id: Some(run.grant_id),
            trigger_detail: Some(format!("graph run {}", run.run_id)),
            trace_context: Some(format!("00-{}-{:016x}-01", run.trace_id, run.run_id.0.as_u64_pair().1)),
            owner: Some(run.owner.clone()),
            ..NewJob::new(Target::flow(run.graph.name()))
        };
        let made = self.store.enqueue_once(vec![job]).await?;
        let lost = || StoreError::Internal("the store made no job".to_owned());
        Ok(made.first().ok_or_else(lost)?.id)
    }

    /// Waits for the last job of the chain to end.
    async fn end_of(&self, id: JobId) -> StoreResult<JobView> {
        let mut ends = self.store.ends();
        loop {
            let last = self.store.chain_end(id).await?;
            let last = last.ok_or_else(|| StoreError::Internal(format!("the job {id} of a graph run is gone")))?;
            if last.state().is_terminal() {
                return Ok(last);
            }
            tokio::select! {
                () = ends.next() => {}
                () = sleep(LOOK) => {}
            }
        }
    }

    async fn run(&self, run: &GraphRun) -> StoreResult<GraphEnd> {
        let flow = self.store.flow(run.graph.name()).await?;
        if flow.is_some_and(|flow| flow.owner.is_some_and(|owner| owner != run.owner)) {
            let words = format!("there is no flow `{}`", run.graph.name());
            return Ok(failed(ErrorCode::TargetRejected, words));
        }
        let id = self.begin(run).await?;
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(run.run_id, id);
        let ended = self.end_of(id).await;
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&run.run_id);
        let last = ended?;
        let used = self.used(last.job.id).await?;
        Ok(told(&last, used))
    }

    /// What a flow is charged for: itself, and each step that was begun.
    async fn used(&self, id: JobId) -> StoreResult<Vec<Used>> {
        let steps = self.store.flow_run(id).await?.map_or(0, |run| {
            let of_step =
                |items: Option<_>| items.map_or(1, |items: punctual_core::flow::progress::Items| items.started);
            run.steps.iter().filter(|step| step.state.started).map(|step| u64::from(of_step(step.state.items))).sum()
        });
        let used = [("run", 1), ("step", steps)];
        let some = used.into_iter().filter(|(_, quantity)| *quantity > 0);
        Ok(some.map(|(unit, quantity)| Used { unit: unit.to_owned(), quantity }).collect())
    }
}

fn failed(code: ErrorCode, words: String) -> GraphEnd {
    GraphEnd { failure: Some((code, words)), output: None, references: BTreeMap::new(), used: Vec::new() }
}

fn told(last: &JobView, used: Vec<Used>) -> GraphEnd {
    let references = BTreeMap::from([("job_id".to_owned(), last.job.id.to_string())]);
    let run = last.run();
    let failure = run.filter(|run| run.outcome != Outcome::Completed).map(|run| {
        let words = run.error.clone().unwrap_or_else(|| format!("the flow is {}", run.outcome));
        (run.error_code.unwrap_or(ErrorCode::Internal), words)
    });
    GraphEnd { failure, output: run.and_then(|run| run.output.clone()), references, used }
}

#[async_trait]
impl GraphExecutor for FlowGraphs {
    fn provider(&self) -> &'static str {
        "flow"
    }

    async fn graphs(&self) -> Result<Vec<String>, Unknown> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let page = self.store.flows(None, names.last().map(String::as_str), PAGE).await;
            let page = page.map_err(|error| Unknown(error.to_string()))?;
            let more = page.len() == PAGE;
            names.extend(page.into_iter().map(|flow| flow.name.to_string()));
            if !more {
                return Ok(names);
            }
        }
    }

    async fn run_graph(&self, run: GraphRun) -> Result<GraphEnd, Unknown> {
        match self.run(&run).await {
            Ok(end) => Ok(end),
            Err(StoreError::Invalid(refused)) => Ok(failed(ErrorCode::TargetRejected, refused.to_string())),
            Err(error) => Err(Unknown(error.to_string())),
        }
    }

    async fn cancel_graph(&self, run: GraphRunId) -> Result<(), Unknown> {
        let job = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).get(&run).copied();
        match job {
            Some(id) => self.store.cancel_job(id).await.map(drop).map_err(|error| Unknown(error.to_string())),
            None => Ok(()),
        }
    }
}
