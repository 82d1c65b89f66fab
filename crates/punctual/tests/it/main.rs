//! The real binary, driven as a user would, and the crate as a program embeds it.

mod crash;
mod cron;
mod demo;
<<<<<<< HEAD
mod embed;
mod examples;
mod join;
mod rehearse;
=======
mod targets;
>>>>>>> command
mod world;
