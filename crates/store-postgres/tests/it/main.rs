//! The PostgreSQL store against the conformance suite, and what is true of PostgreSQL alone.

mod harness;

use harness::PostgresHarness;

punctual_testkit::conformance!(PostgresHarness);
punctual_testkit::model_test!(PostgresHarness);
