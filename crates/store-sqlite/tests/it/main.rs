//! The SQLite store against the conformance suite and the reference model.

mod harness;

use harness::SqliteHarness;

punctual_testkit::conformance!(SqliteHarness);
punctual_testkit::model_test!(SqliteHarness);
