//! Limits from a program: how many jobs run at once, and how many start in a while.

use crate::Result;
use jiff::SignedDuration;
use punctual_core::limits::{Limit, LimitRow, Rate};
use punctual_core::store::Store;
use std::sync::Arc;
use std::time::Duration;

/// A limit that is being put together; see [`Punctual::limit`](crate::Punctual::limit).
#[derive(Clone)]
#[must_use = "a limit is in force once it is saved"]
pub struct LimitBuilder {
    store: Arc<dyn Store>,
    subject: String,
    concurrency: Option<u32>,
    node_concurrency: Option<u32>,
    rate: Option<Rate>,
}

impl std::fmt::Debug for LimitBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimitBuilder").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl LimitBuilder {
    pub(crate) fn new(store: Arc<dyn Store>, subject: &str) -> Self {
        Self { store, subject: subject.to_owned(), concurrency: None, node_concurrency: None, rate: None }
    }

    /// So many at once, on all nodes together; 0 lets none start.
    pub fn concurrency(self, jobs: u32) -> Self {
        Self { concurrency: Some(jobs), ..self }
    }

    /// So many at once on each node; 0 lets none start.
    pub fn per_node(self, jobs: u32) -> Self {
        Self { node_concurrency: Some(jobs), ..self }
    }

    /// So many starts in a while, on all nodes together, and as many at once after a quiet time.
    pub fn rate(self, jobs: u32, per: Duration) -> Self {
        let per = SignedDuration::try_from(per).unwrap_or(SignedDuration::MAX);
        Self { rate: Some(Rate { jobs, per, burst: jobs }), ..self }
    }

    /// So many starts at once after a quiet time, where there is a rate.
    pub fn burst(mut self, jobs: u32) -> Self {
        self.rate = self.rate.map(|rate| Rate { burst: jobs, ..rate });
        self
    }

    /// Sets the limit: it counts what runs and what waits already.
    pub async fn save(self) -> Result<LimitRow> {
        let Self { store, subject, concurrency, node_concurrency, rate } = self;
        let limit = Limit { subject: subject.parse()?, concurrency, node_concurrency, rate };
        Ok(store.set_limit(limit).await?)
    }

    /// Removes it.
    pub async fn remove(self) -> Result<()> {
        Ok(self.store.remove_limit(&self.subject.parse()?).await?)
    }
}
