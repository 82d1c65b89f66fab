//! The real binary, driven as a user would.

mod cron;
mod demo;
