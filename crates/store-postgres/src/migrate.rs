//! Migrations: numbered, named, applied in one transaction, safe when two nodes come at once.

use crate::error::Work;
use crate::params::{Params, params};
use crate::rows::Columns;
use crate::session::Session;
use punctual_core::freeze::too_old_and_frozen;
use punctual_core::store::StoreError;
use punctual_core::upkeep::AppliedMigration;

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
    // Breaking: a node that does not know what SQL asks for would plan over it.
    Migration {
        number: 12,
        name: "sql_requests",
        breaking: true,
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

/// The oldest server this store works on, as it numbers itself.
const OLDEST_SERVER: i32 = 130_000;

/// The roles themselves.
const ROLES: &str = include_str!("../sql/roles.sql");

/// What each role may do, and the schema that it is let into.
const GRANTS: [(&str, &str, &str); 5] = [
    ("punctual_admin", "punctual_internal", include_str!("../sql/roles/admin.sql")),
    ("punctual_worker", "punctual_internal", include_str!("../sql/roles/worker.sql")),
    ("punctual_execution", "punctual_internal", include_str!("../sql/roles/execution.sql")),
    ("punctual_client", "punctual", include_str!("../sql/roles/client.sql")),
    ("punctual_reader", "punctual", include_str!("../sql/roles/reader.sql")),
];

/// Brings the database to the newest schema, or refuses one that is too new; says what that took.
pub(crate) async fn migrate(session: &Session) -> Work<Vec<AppliedMigration>> {
    // A database that is up to date needs neither a lock nor the right to change the schema.
    if is_there(session).await? {
        refuse_too_new(session).await?;
        if applied(session).await? >= newest() {
            return Ok(Vec::new());
        }
    }
    session.word("BEGIN").await?;
    let done = apply_missing(session).await;
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    session.word(end).await?;
    done
}

/// Makes the roles and gives each what it needs.
pub(crate) async fn apply_roles(session: &Session) -> Work<()> {
    // Sent as one, it is one transaction.
    Ok(session.word(&all_grants()).await?)
}

/// The SQL that makes the roles and gives each the least it needs, for whoever may make roles.
pub fn roles_sql() -> String {
    format!("BEGIN;\n\n{}\nCOMMIT;\n", all_grants())
}

fn all_grants() -> String {
    let grants = GRANTS.iter().map(|(_, _, grants)| *grants);
    std::iter::once(ROLES).chain(grants).collect::<Vec<_>>().join("\n")
}

/// Roles that were let in once may use what is new as well. Others are left alone: those of another database of this
/// server have no business here.
async fn keep_roles_up(session: &Session) -> Work<()> {
    for (role, schema, grants) in GRANTS {
        let find = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_roles
                    WHERE rolname = $1 AND has_schema_privilege(oid, $2, 'USAGE'))";
        let rows = session.rows(find, &params![role, schema]).await?;
        if crate::rows::collect(&rows, crate::rows::value)?.pop().unwrap_or(false) {
            session.word(grants).await?;
        }
    }
    Ok(())
}

async fn apply_missing(session: &Session) -> Work<Vec<AppliedMigration>> {
    refuse_old_server(session).await?;
    // The lock is taken before looking, so that of two nodes the second finds the work done.
    session.word("SELECT pg_advisory_xact_lock(7815263000)").await?;
    session.word("CREATE SCHEMA IF NOT EXISTS punctual_internal").await?;
    session
        .word(
            "CREATE TABLE IF NOT EXISTS punctual_internal.migrations (
               number bigint PRIMARY KEY, name text NOT NULL, breaking boolean NOT NULL,
               applied_at timestamptz NOT NULL DEFAULT now()
             )",
        )
        .await?;
    refuse_too_new(session).await?;
    let applied = applied(session).await?;
    let missing: Vec<&Migration> = MIGRATIONS.iter().filter(|m| m.number > applied).collect();
    if !missing.is_empty() {
        refuse_frozen(session, applied).await?;
    }
    let mut taken = Vec::new();
    for migration in missing {
        session.word(migration.sql).await?;
        let record = "INSERT INTO punctual_internal.migrations (number, name, breaking) VALUES ($1, $2, $3)";
        session.count(record, &params![migration.number, migration.name, migration.breaking]).await?;
        taken.push(AppliedMigration { number: migration.number, name: migration.name });
    }
    keep_roles_up(session).await?;
    Ok(taken)
}

/// Older ones cannot guard the rows of partitions.
async fn refuse_old_server(session: &Session) -> Work<()> {
    let rows = session.rows("SELECT current_setting('server_version_num')::integer", &Params::default()).await?;
    let version: Option<i32> = crate::rows::collect(&rows, crate::rows::value)?.pop();
    match version {
        Some(version) if version < OLDEST_SERVER => {
            let told = format!("PostgreSQL {} is too old; use {} or newer", version / 10_000, OLDEST_SERVER / 10_000);
            Err(StoreError::Unavailable(told).into())
        }
        _ => Ok(()),
    }
}

fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |m| m.number)
}

async fn is_there(session: &Session) -> Work<bool> {
    let find = "SELECT to_regclass('punctual_internal.migrations') IS NOT NULL";
    let rows = session.rows(find, &Params::default()).await?;
    Ok(crate::rows::collect(&rows, crate::rows::value)?.pop().unwrap_or(false))
}

async fn applied(session: &Session) -> Work<i64> {
    let find = "SELECT coalesce(max(number), 0) FROM punctual_internal.migrations";
    let rows = session.rows(find, &Params::default()).await?;
    Ok(crate::rows::collect(&rows, crate::rows::value)?.pop().unwrap_or(0))
}

/// What is frozen is being moved, or has been: its schema stays as the other side knows it.
async fn refuse_frozen(session: &Session, applied: i64) -> Work<()> {
    let find = "SELECT to_regclass('punctual_internal.frozen') IS NOT NULL";
    let can_be = session.rows(find, &Params::default()).await?;
    if !crate::rows::collect(&can_be, crate::rows::value)?.pop().unwrap_or(false) {
        return Ok(());
    }
    let found = session.rows(crate::freeze::FIND, &Params::default()).await?;
    match crate::rows::collect(&found, crate::freeze::freeze)?.pop() {
        Some(freeze) => Err(too_old_and_frozen(&freeze, applied).into()),
        None => Ok(()),
    }
}

async fn refuse_too_new(session: &Session) -> Work<()> {
    let find = "SELECT number, name FROM punctual_internal.migrations WHERE breaking AND number > $1
                ORDER BY number LIMIT 1";
    let rows = session.rows(find, &params![newest()]).await?;
    let newer = crate::rows::collect(&rows, |row| {
        let mut c = Columns::of(row);
        Ok((c.next()?, c.next()?))
    })?;
    match newer.into_iter().next() {
        Some((found, name)) => Err(StoreError::SchemaTooNew { found, name, known: newest() }.into()),
        None => Ok(()),
    }
}
