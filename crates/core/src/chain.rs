//! The chain of a job and its retries, followed to its end: what somebody who waits for a result asks for.

use crate::id::JobId;
use crate::job::JobView;
use crate::store::{Changes, StoreResult};
use async_trait::async_trait;

/// The part of the store that follows chains.
#[async_trait]
pub trait Chains: Send + Sync {
    /// The last job of the chain that goes on from a job: itself, or its latest retry. The chain is over when that one
    /// has ended.
    async fn chain_end(&self, id: JobId) -> StoreResult<Option<JobView>>;

    /// A wake-up line for whoever waits for the end of a job. Ends on other nodes may never be told.
    fn ends(&self) -> Box<dyn Changes>;
}
