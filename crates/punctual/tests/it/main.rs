//! The real binary, driven as a user would.

mod crash;
mod cron;
mod demo;
mod fallback;
mod serve;
mod world;
