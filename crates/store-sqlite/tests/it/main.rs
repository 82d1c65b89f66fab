//! The SQLite store against the conformance suite, its own plans and its own file.

mod catalogue;
mod file;
mod harness;
mod ledger;
mod lists;
mod plans;
mod sql_target;

use harness::SqliteHarness;

punctual_testkit::conformance!(SqliteHarness);
punctual_testkit::model_test!(SqliteHarness);
punctual_testkit::sim_tests!(SqliteHarness, 200 seeds of 24 hours);
