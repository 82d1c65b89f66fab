//! What tests share: a virtual clock, the conformance suite that every store must pass, and a reference model.
//!
//! A store crate says once how it is opened ([`Harness`]) and gets every case as a test of its own:
//!
//! ```text
//! punctual_testkit::conformance!(SqliteHarness::new());
//! punctual_testkit::model_test!(SqliteHarness::new());
//! ```
//!
//! Nothing here ever sleeps: time is a [`VirtualClock`] that a case turns by hand.
#![expect(clippy::missing_panics_doc, reason = "this is test code: it panics where it does not see what it expects")]

pub mod by_hand;
pub mod clients;
pub mod conformance;
pub mod faults;
pub mod graphs;
pub mod harness;
pub mod langgraph;
pub mod model;
pub mod postgres;
pub mod prometheus;
pub mod property;
pub mod receivers;
pub mod sim;
pub mod steps;
pub mod verbs;

/// What every case begins with: the world, and the words in which cases are written.
pub mod prelude {
    pub use crate::harness::World;
    pub use crate::steps::*;
}

pub use harness::{Backing, Faults, Harness, RawSql, StoreKind, World};
pub use punctual_core::virtual_clock::VirtualClock;
