//! The options about a LangGraph server whose graphs a server runs.

use std::sync::Arc;

use clap::Args;
use punctual_core::graph::GraphExecutor;
use punctual_server::graphs::langgraph::{LangGraph, LangGraphOptions};

use super::Stop;

/// A LangGraph server.
#[derive(Args)]
#[command(next_help_heading = "Graphs")]
pub(crate) struct LangGraphArgs {
    /// The LangGraph server that runs the graphs `langgraph:NAME`
    #[arg(long, value_name = "URL", env = "PUNCTUAL_LANGGRAPH_URL")]
    langgraph_url: Option<String>,
    /// The key that it asks for
    #[arg(
        long,
        value_name = "KEY",
        env = "PUNCTUAL_LANGGRAPH_API_KEY",
        hide_env_values = true,
        requires = "langgraph_url"
    )]
    langgraph_api_key: Option<String>,
}

impl LangGraphArgs {
    /// The provider of its graphs, if there is one. Refused: what is no address.
    pub(crate) fn provider(&self) -> Result<Option<Arc<dyn GraphExecutor>>, Stop> {
        let Some(url) = &self.langgraph_url else { return Ok(None) };
        let options = LangGraphOptions { api_key: self.langgraph_api_key.clone(), ..LangGraphOptions::new(url) };
        let provider = LangGraph::new(&options).map_err(|refused| Stop::usage(refused.to_string()))?;
        Ok(Some(Arc::new(provider)))
    }
}
