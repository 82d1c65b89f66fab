//! The real binary, driven as a user would.

mod calls;
mod crash;
mod cron;
mod demo;
mod world;
