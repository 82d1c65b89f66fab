//! What jobs do for real, one file for each kind of target.

pub mod command;
#[cfg(feature = "http")]
pub mod graph;
#[cfg(feature = "http")]
pub mod http;
pub mod task;
