//! The references: the same row moves by hand-written SQL, with as little else as possible.

pub mod postgres;
pub mod sqlite;
