//! The real binary, driven as a user would, and the crate as a program embeds it.

mod bulk;
mod calls;
mod cli;
mod clocks;
mod config;
mod crash;
mod cron;
mod demo;
mod disk;
mod embed;
mod examples;
mod fallback;
mod herd;
mod join;
mod limits;
mod outage;
mod pooler;
mod process;
mod readme;
mod rehearse;
mod reserve;
mod serial;
mod serve;
mod sharing;
mod targets;
mod world;
