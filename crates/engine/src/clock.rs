//! The node's clocks: the one place in the engine that reads any.

use jiff::Timestamp;
use punctual_core::store::Clock;
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

/// The host's wall clock: it decides nothing, and says when something was signed, which others compare with theirs.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
