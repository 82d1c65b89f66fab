//! A throw-away PostgreSQL: one server for all tests that run at the same time, one database for each test.
//!
//! The server is started by whoever needs it first and stops by itself when nobody has used it for some seconds, so
//! that plain `cargo nextest run` works, where every test is a process of its own. `PUNCTUAL_TEST_POSTGRES` or
//! `DATABASE_URL` names a server that is there already; its user must be allowed to make databases.

mod authority;
mod database;
mod pgbouncer;
mod prompt;
mod server;

pub use authority::{Authority, Certificate};
pub use database::Database;
pub use pgbouncer::PgBouncer;
pub use prompt::{PostgresFaults, PostgresPrompt};
pub use server::{PrivateServer, Programs};
