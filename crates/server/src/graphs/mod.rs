//! Graph providers, found by the prefix of a graph's id (A01).

mod flow;
#[cfg(feature = "langgraph")]
pub mod langgraph;

pub(crate) use flow::FlowGraphs;

use crate::problem::Problem;
use axum::http::StatusCode;
use punctual_core::graph::{GraphExecutor, GraphId};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The providers of one server.
#[derive(Default)]
pub(crate) struct Providers(RwLock<BTreeMap<String, Arc<dyn GraphExecutor>>>);

impl Providers {
    /// Adds one; a later one with the same prefix takes the place of the earlier one.
    pub(crate) fn add(&self, provider: Arc<dyn GraphExecutor>) {
        let name = provider.provider().to_owned();
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name, provider);
    }

    /// Whose graph it is.
    pub(crate) fn of(&self, graph: &GraphId) -> Option<Arc<dyn GraphExecutor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(graph.provider()).cloned()
    }

    /// All of them, in order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<dyn GraphExecutor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The refusal of a graph that nobody here has.
    pub(crate) fn unknown(&self, graph: &GraphId) -> Problem {
        let known: Vec<String> = self.all().iter().map(|provider| format!("{}:", provider.provider())).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let told = format!("no provider `{}:` has the graph {graph}; this server has {known}", graph.provider());
        Problem::new(StatusCode::NOT_FOUND, "no_executor", told)
            .remedy("correct the id, or set the provider up on this server")
    }
}
