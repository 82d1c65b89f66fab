//! What jobs do for real, one file for each kind of target.

pub mod command;
pub mod http;
pub mod task;
