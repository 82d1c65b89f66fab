//! The node's monotonic clock: the one place in the engine that reads a clock.

use std::time::Duration;
use tokio::time::Instant;

/// Time since the node started, which never goes back and which nobody can set. It is the clock of the runtime that the
/// node's timers follow, so that a simulation, which turns that one, turns both.
#[derive(Debug, Clone, Copy)]
pub struct Uptime(Instant);

impl Uptime {
    /// Starts counting.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has been.
    pub fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
