//! The PostgreSQL store against the conformance suite and the model, and what is true of PostgreSQL alone.

mod alike;
mod catalogue;
mod clocks;
mod contention;
mod cuts;
mod defences;
mod faults;
mod gather;
mod harness;
mod join;
mod line_of_claims;
mod lists;
mod old_snapshots;
mod partitions;
mod plans;
mod pooler;
mod requests;
mod roles;
mod schema;
mod sql_target;
mod surface;
mod tls;
mod vacuum;
mod wake;
mod warm;

use harness::PostgresHarness;

punctual_testkit::conformance!(PostgresHarness);
punctual_testkit::model_test!(PostgresHarness);
// Every verb is several round trips to a server here, so the suite takes a few hours of a few seeds; `cargo xtask sim
// --store postgres` takes as many days as are asked for.
punctual_testkit::sim_tests!(PostgresHarness, 8 seeds of 3 hours);
