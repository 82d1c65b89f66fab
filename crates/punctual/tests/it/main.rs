//! The real binary, driven as a user would, and the crate as a program embeds it.

<<<<<<< HEAD
mod clocks;
=======
mod calls;
>>>>>>> calls
mod crash;
mod cron;
mod demo;
<<<<<<< HEAD
mod embed;
mod examples;
mod join;
mod rehearse;
mod disk;
mod herd;
mod outage;
mod pooler;
mod process;
mod sharing;
=======
mod targets;
>>>>>>> command
mod world;
