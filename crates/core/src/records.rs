//! What a run leaves behind beside its end: log lines and how far it has come.

use crate::words::words;
use jiff::Timestamp;

words! {
    /// Who said a line of a run's log.
    pub enum LogStream as "log stream" {
        /// The target, on its ordinary output.
        Stdout = "stdout",
        /// The target, on its error output.
        Stderr = "stderr",
        /// Punctual itself, about the run.
        System = "system",
    }
}

/// One line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its number within the run, from 1.
    pub sequence: u64,
    /// When it was said, by the store's clock.
    pub at: Timestamp,
    /// Who said it.
    pub stream: LogStream,
    /// What was said, without its line break.
    pub text: String,
}

/// How far a run has come, as it says itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// From 0 to 100.
    pub percent: u8,
    /// What it is doing.
    pub note: String,
}

impl Progress {
    /// So far, and doing this; more than 100 is 100.
    pub fn new(percent: u8, note: impl Into<String>) -> Self {
        Self { percent: percent.min(100), note: note.into() }
    }
}
