//! Graphs: the one port through which a graph is run, and the names by which its provider is found (A01).

use crate::id::GraphRunId;
use crate::invalid::Invalid;
use crate::json::Json;
use crate::name;
use crate::run::ErrorCode;
use async_trait::async_trait;

/// The id of a graph: its provider and its name there, such as `flow:etl` or `langgraph:assistant`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphId {
    provider: String,
    name: String,
}

impl GraphId {
    /// Whose graph it is.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What it is called there.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::str::FromStr for GraphId {
    type Err = Invalid;

    /// ```
    /// use punctual_core::graph::GraphId;
    /// let id: GraphId = "flow:etl".parse().unwrap();
    /// assert_eq!((id.provider(), id.name()), ("flow", "etl"));
    /// assert!("etl".parse::<GraphId>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, Invalid> {
        name::check(text).map_err(|e| Invalid { field: "graph_id".into(), ..e })?;
        match text.split_once(':') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() && !text.contains('*') => {
                Ok(Self { provider: provider.to_owned(), name: name.to_owned() })
            }
            _ => Err(Invalid::new("graph_id", "does not say which provider has the graph")
                .remedy("write provider:name, such as flow:etl")),
        }
    }
}

impl std::fmt::Display for GraphId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.provider, self.name)
    }
}

/// One run of a graph that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphRun {
    /// Its identity, stored before the provider hears of it. A provider starts at most one run for an id: asked again,
    /// it answers with the run it has, and waits for it if it has not ended.
    pub run_id: GraphRunId,
    /// What is run.
    pub graph: GraphId,
    /// What it is given.
    pub input: Json,
    /// By which key of its account the provider charges (A03).
    pub virtual_key: String,
    /// The trace it belongs to: 32 hex digits.
    pub trace_id: String,
    /// The grant it runs under, for what the graph does in its turn.
    pub grant_id: crate::id::GrantId,
    /// Whose run it is.
    pub owner: String,
}

/// What a run used up, in the provider's own unit; it is charged once for each run, attempt and unit (A18).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// In which unit, such as `run` or `token`.
    pub unit: String,
    /// How many.
    pub quantity: u64,
}

/// How a run of a graph ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphEnd {
    /// Why it did not come to a good end; `None` when it did.
    pub failure: Option<(ErrorCode, String)>,
    /// What it returned.
    pub output: Option<Json>,
    /// The provider's names for it, such as `thread_id`, for people who look it up there.
    pub references: std::collections::BTreeMap<String, String>,
    /// What is charged for it.
    pub used: Vec<Used>,
}

/// The provider could not be reached, or broke off: whether the run has happened is not known, and asking again with
/// the same id is right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the outcome is not known: {0}")]
pub struct Unknown(pub String);

/// The port behind every graph.
#[async_trait]
pub trait GraphExecutor: Send + Sync {
    /// The prefix of the graphs it has.
    fn provider(&self) -> &str;

    /// The names of its graphs, as far as it can say.
    async fn graphs(&self) -> Result<Vec<String>, Unknown>;

    /// Runs a graph to its end, once for each run id.
    async fn run_graph(&self, run: GraphRun) -> Result<GraphEnd, Unknown>;

    /// Stops a run, as far as the provider can.
    async fn cancel_graph(&self, run: GraphRunId) -> Result<(), Unknown>;
}
