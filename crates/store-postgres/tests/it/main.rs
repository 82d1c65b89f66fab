//! The PostgreSQL store against the conformance suite and the model, and what is true of PostgreSQL alone.

mod clocks;
mod contention;
mod cuts;
mod defences;
mod faults;
mod gather;
mod harness;
mod join;
mod lists;
mod partitions;
mod plans;
mod pooler;
mod schema;
mod sql_target;
mod tls;
mod wake;

use harness::PostgresHarness;

punctual_testkit::conformance!(PostgresHarness);
punctual_testkit::model_test!(PostgresHarness);
// A simulated day takes too long here for the suite: `cargo xtask sim --store postgres` runs as many as are asked for.
punctual_testkit::sim_tests!(PostgresHarness, 0);
