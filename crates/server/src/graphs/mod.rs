//! Where graphs are run: the providers behind `GraphExecutor`.

#[cfg(feature = "langgraph")]
pub mod langgraph;
