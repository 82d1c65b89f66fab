//! The real binary, driven as a user would.

mod crash;
mod cron;
mod demo;
mod targets;
mod world;
