//! The real binary, driven as a user would, and the crate as a program embeds it.

mod crash;
mod cron;
mod demo;
mod embed;
mod examples;
mod join;
mod rehearse;
mod targets;
mod world;
