//! What is measured on a database: Punctual and hand-written SQL on the same tables, one beside the other.

pub mod contestant;
pub mod node;
pub mod quick;
pub mod raw;

/// What goes wrong in a benchmark ends it.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
