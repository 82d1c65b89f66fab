//! Migrations: numbered, named, applied in one transaction, safe when two processes come at once.

use crate::error::store_error;
use jiff::Timestamp;
use punctual_core::freeze::too_old_and_frozen;
use punctual_core::store::{StoreError, StoreResult};
use punctual_core::upkeep::AppliedMigration;
use rusqlite::{Connection, params};

/// One step of the schema. Both stores carry the same numbers.
struct Migration {
    number: i64,
    name: &'static str,
    /// Whether a program that does not know it must refuse to run.
    breaking: bool,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "ground", breaking: true, sql: include_str!("../migrations/0001_ground.sql") },
    Migration { number: 2, name: "upkeep", breaking: true, sql: include_str!("../migrations/0002_upkeep.sql") },
    Migration {
        number: 3,
        name: "run_records",
        breaking: true,
        sql: include_str!("../migrations/0003_run_records.sql"),
    },
    Migration { number: 4, name: "access", breaking: false, sql: include_str!("../migrations/0004_access.sql") },
    Migration { number: 5, name: "join", breaking: true, sql: include_str!("../migrations/0005_join.sql") },
    Migration { number: 6, name: "backfill", breaking: false, sql: include_str!("../migrations/0006_backfill.sql") },
    Migration { number: 7, name: "policies", breaking: true, sql: include_str!("../migrations/0007_policies.sql") },
    Migration { number: 8, name: "control", breaking: true, sql: include_str!("../migrations/0008_control.sql") },
    // Breaking: a node that knows no limits would not heed them.
    Migration { number: 9, name: "limits", breaking: true, sql: include_str!("../migrations/0009_limits.sql") },
    Migration { number: 10, name: "flows", breaking: true, sql: include_str!("../migrations/0010_flows.sql") },
    // Breaking: a node that checks no grants would run what was revoked.
    Migration { number: 11, name: "graphs", breaking: true, sql: include_str!("../migrations/0011_graphs.sql") },
    Migration {
        number: 12,
        name: "sql_requests",
        breaking: false,
        sql: include_str!("../migrations/0012_sql_requests.sql"),
    },
    Migration {
        number: 13,
        name: "sql_schedules",
        breaking: false,
        sql: include_str!("../migrations/0013_sql_schedules.sql"),
    },
    Migration {
        number: 14,
        name: "sql_surface",
        breaking: false,
        sql: include_str!("../migrations/0014_sql_surface.sql"),
    },
    Migration {
        number: 15,
        name: "notifications",
        breaking: false,
        sql: include_str!("../migrations/0015_notifications.sql"),
    },
    Migration {
        number: 16,
        name: "runs_by_error",
        breaking: false,
        sql: include_str!("../migrations/0016_runs_by_error.sql"),
    },
    Migration { number: 17, name: "manifests", breaking: false, sql: include_str!("../migrations/0017_manifests.sql") },
    // Breaking: a node that knows no freeze would take it for a fault of each schedule.
    Migration { number: 18, name: "move", breaking: true, sql: include_str!("../migrations/0018_move.sql") },
    Migration {
        number: 19,
        name: "indexes_of_one_purpose",
        breaking: false,
        sql: include_str!("../migrations/0019_indexes_of_one_purpose.sql"),
    },
];

/// Brings the file to the newest schema, or refuses one that is too new; says what that took.
pub(crate) fn migrate(connection: &Connection, now: Timestamp) -> StoreResult<Vec<AppliedMigration>> {
    // The lock is taken before looking, so that of two processes the second finds the work done.
    connection.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
    let done = apply_missing(connection, now);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.execute_batch(end).map_err(store_error)?;
    done
}

fn apply_missing(connection: &Connection, now: Timestamp) -> StoreResult<Vec<AppliedMigration>> {
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS punctual_migrations (
               number INTEGER PRIMARY KEY, name TEXT NOT NULL, breaking INTEGER NOT NULL, applied_at INTEGER NOT NULL
             ) STRICT",
        )
        .map_err(store_error)?;
    let applied: i64 = connection
        .query_row("SELECT coalesce(max(number), 0) FROM punctual_migrations", [], |row| row.get(0))
        .map_err(store_error)?;
    refuse_too_new(connection)?;
    let missing: Vec<&Migration> = MIGRATIONS.iter().filter(|m| m.number > applied).collect();
    if !missing.is_empty() {
        refuse_frozen(connection, applied)?;
    }
    let mut taken = Vec::new();
    for migration in missing {
        connection.execute_batch(migration.sql).map_err(store_error)?;
        connection
            .execute(
                "INSERT INTO punctual_migrations (number, name, breaking, applied_at) VALUES (?1, ?2, ?3, ?4)",
                params![migration.number, migration.name, migration.breaking, now.as_microsecond()],
            )
            .map_err(store_error)?;
        taken.push(AppliedMigration { number: migration.number, name: migration.name });
    }
    Ok(taken)
}

/// What is frozen is being moved, or has been: its schema stays as the other side knows it.
fn refuse_frozen(connection: &Connection, applied: i64) -> StoreResult<()> {
    let find = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'punctual_frozen')";
    let can_be: bool = connection.query_row(find, [], |row| row.get(0)).map_err(store_error)?;
    match can_be.then(|| crate::freeze::read_frozen(connection)).transpose()?.flatten() {
        Some(freeze) => Err(too_old_and_frozen(&freeze, applied)),
        None => Ok(()),
    }
}

/// The newest schema that this program knows.
pub(crate) fn newest_known() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// Refuses a file that a newer program has written in a way that this one cannot read.
pub(crate) fn refuse_too_new(connection: &Connection) -> StoreResult<()> {
    let known = newest_known();
    let newer = connection.query_row(
        "SELECT number, name FROM punctual_migrations WHERE breaking = 1 AND number > ?1 ORDER BY number LIMIT 1",
        [known],
        |row| Ok((row.get(0)?, row.get(1)?)),
    );
    match newer {
        Ok((found, name)) => Err(StoreError::SchemaTooNew { found, name, known }),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
        Err(error) => Err(store_error(error)),
    }
}
