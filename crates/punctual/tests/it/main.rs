//! The real binary, driven as a user would.

mod clocks;
mod crash;
mod cron;
mod demo;
mod disk;
mod herd;
mod outage;
mod pooler;
mod process;
mod sharing;
mod world;
