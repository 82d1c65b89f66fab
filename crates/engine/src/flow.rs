//! Flows: what hands one over to its steps, and the pass that stops those that somebody wants to stop or whose time is over.

use crate::again::again_and_again;
use crate::phase::Phase;
use async_trait::async_trait;
use punctual_core::execute::{Executor, RunContext};
use punctual_core::flow::FlowsAdvanced;
use punctual_core::store::{FinishedRun, Store, StoreResult};
use std::time::Duration;

/// The job type of flows.
pub const FLOW: &str = "flow";

/// How many flows one pass stops.
const STOPS_MAX: usize = 100;

/// Hands flows over to their steps. It needs nothing that a node could lack, so every node has it; and it takes no time,
/// because the steps are jobs of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlowExecutor;

#[async_trait]
impl Executor for FlowExecutor {
    async fn run(&self, run: RunContext) -> FinishedRun {
        FinishedRun::by_steps(run.job.id)
    }
}

/// Stops what is to be stopped.
pub async fn stop_flows_once(store: &dyn Store) -> StoreResult<FlowsAdvanced> {
    let _phase = Phase::enter("flow");
    store.advance_flows(STOPS_MAX).await
}

/// Goes on for ever: at once while there is something to stop, and when the time of the next flow is over.
pub async fn run(store: &dyn Store, every: Duration) {
    again_and_again(store, every, "stopping flows", |store| {
        Box::pin(async move {
            let FlowsAdvanced { stopped, expired, next_in } = stop_flows_once(store).await?;
            // What was stopped may have steps that are flows themselves.
            let more = (stopped + expired > 0).then_some(Duration::ZERO);
            Ok(more.or_else(|| next_in.map(|wait| Duration::try_from(wait).unwrap_or_default())))
        })
    })
    .await;
}
