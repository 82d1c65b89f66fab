//! The words and rules of Punctual, with no I/O, no clock and no async runtime.

pub mod cron;
pub mod duration;
