//! A quick look at a database: how fast Punctual is on it, beside hand-written SQL on the same tables, and what holds it
//! back.
//!
//! Both sides work on the same tables of a place of its own and take turns, so that whatever else the machine does meets
//! both alike. No ratio is given unless every job of the look is accounted for and the database has said that it is
//! durable.

mod durability;
mod facts;
mod figures;
mod look;
mod ours;
mod place;
mod postgres;
mod side;
mod sqlite;
mod text;
mod verdict;

pub use facts::{Counts, Facts, StoreKind};
pub use figures::{Figure, Goal, Measure, Ratio};
pub use look::{Findings, Scale, look};
pub use place::{Leftover, Place, PlaceError, Wanted};
pub use verdict::{Remark, Weight};
