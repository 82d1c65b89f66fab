//! How the hot statements are carried out: index range scans, no sort, no full scan, whatever the tables hold (E08).

use jiff::Timestamp;
use punctual_core::store::Store;
use punctual_store_sqlite::{SqliteOptions, SqliteStore, sql};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, StatementStatus, params};
use std::path::Path;

/// The statements whose cost must depend on what they return. The others read by primary key, or are run by hand.
const HOT: &[&str] = &[
    "due_schedules",
    "unplanned_schedules",
    "resumable_schedules",
    "burst_schedules",
    "schedule_names",
    "reconcile_page",
    "next_due",
    "next_due_capped",
    "due_delayed",
    "lane_head",
    "lane_page",
    "serial_head",
    "schedule_jobs_page",
    "slots_page",
    "schedules_page",
    "schedule_by_id",
    "schedule_by_name",
    "job_by_id",
    "job_places",
    "log_page",
    "lane_jobs",
    "start_lane_jobs",
    "unqueue_lane_jobs",
    "plain_running",
    "take_running",
    "give_back",
    "hold_serial_others",
    "ready_serial_head",
    "live_of_schedule",
    "set_plan",
    "jobs_after",
    "ended_after",
    "jobs_page",
    "jobs_page_delayed",
    "jobs_page_of_owner",
    "jobs_page_of_schedule",
    "jobs_page_queue",
    "jobs_page_running",
    "jobs_page_runs",
    "jobs_page_runs_not_completed",
    "jobs_page_runs_of_error",
    "scan_runs_of_error",
    "slots_page_between",
    "scan_jobs",
    "scan_jobs_of_owner",
    "scan_jobs_of_schedule",
    "scan_runs_not_completed",
    "scan_schedules",
    "scan_schedules_of_owner",
    "schedules_filtered",
    "schedules_filtered_of_owner",
    "next_schedules",
    "queue_figures",
    "nodes_page",
    "nodes_page_alive",
    "queues_page",
    "templates_page",
    "calendars_page",
    "managed_page",
    "managed_page_of_owner",
    "tokens_page",
    "audit_page",
    "audit_page_of_subject",
    "audit_after",
    "session_by_hash",
];

fn statement(name: &str) -> &'static str {
    sql::ALL.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no statement {name}")).1
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let columns = vec![rusqlite::types::Value::Null; explain.parameter_count()];
    let lines = explain.query_map(rusqlite::params_from_iter(columns), |row| row.get::<_, String>(3)).unwrap();
    lines.map(Result::unwrap).collect()
}

/// Whether a line of a plan reads a whole table, or sorts.
fn is_costly(line: &str) -> bool {
    let scans_table = line.starts_with("SCAN ")
        && !line.contains("USING INDEX")
        && !line.contains("USING COVERING INDEX")
        && !line.contains("CONSTANT ROW")
        && line != "SCAN one_row"
        // What was found is gone through one by one, and so is the text of a row.
        && line != "SCAN s"
        && !line.contains("VIRTUAL TABLE")
        && !line.contains("(subquery")
        && !line.contains("SUBQUERY");
    scans_table || line.contains("TEMP B-TREE") || line.contains("AUTOMATIC")
}

fn new_store(folder: &Path) -> (SqliteStore, Connection) {
    let path = folder.join("plans.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).unwrap();
    (store, connection)
}

#[test]
fn e08_no_hot_statement_scans_a_table_or_sorts() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, connection) = new_store(folder.path());
    for name in HOT {
        let plan = plan(&connection, statement(name));
        assert!(!plan.is_empty(), "{name} has no plan");
        let costly: Vec<_> = plan.iter().filter(|line| is_costly(line)).collect();
        assert!(costly.is_empty(), "{name}: {plan:#?}");
    }
}

#[test]
fn e08_the_due_queries_use_the_indexes_made_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, connection) = new_store(folder.path());
    for (name, index) in [
        ("due_schedules", "SEARCH t USING INDEX punctual_schedule_state_due (next_run_at>? AND next_run_at<?)"),
        ("unplanned_schedules", "punctual_schedule_state_unplanned"),
        ("due_delayed", "SEARCH d USING COVERING INDEX punctual_delayed_due (run_at>? AND run_at<?)"),
        ("lane_head", "SEARCH punctual_queue USING COVERING INDEX punctual_queue_ready (lane_id=?)"),
        ("lane_jobs", "SEARCH punctual_queue USING COVERING INDEX punctual_queue_ready (lane_id=?)"),
        ("start_lane_jobs", "SEARCH punctual_queue USING INDEX punctual_queue_ready (lane_id=?)"),
        ("unqueue_lane_jobs", "SEARCH punctual_queue USING COVERING INDEX punctual_queue_ready (lane_id=?)"),
        ("serial_head", "punctual_queue_serial (serial_key=?)"),
        ("schedule_jobs_page", "punctual_jobs_schedule (schedule_id=? AND id<?)"),
        ("run_series", "punctual_runs_finished (finished_at>? AND finished_at<?)"),
        ("recent_runs", "punctual_jobs_schedule (schedule_id=?)"),
        ("jobs_page", "SEARCH punctual_jobs USING PRIMARY KEY (id>? AND id<?)"),
        ("jobs_page_of_owner", "punctual_jobs_owner (owner=? AND id>? AND id<?)"),
        ("jobs_page_of_schedule", "punctual_jobs_schedule (schedule_id=? AND id>? AND id<?)"),
        ("jobs_page_queue", "SEARCH punctual_queue USING PRIMARY KEY (job_id>? AND job_id<?)"),
        ("jobs_page_runs", "SEARCH punctual_runs USING PRIMARY KEY (job_id>? AND job_id<?)"),
        ("jobs_page_runs_not_completed", "punctual_runs_not_completed (outcome=? AND job_id>? AND job_id<?)"),
        ("jobs_page_runs_of_error", "punctual_runs_error (error_code=? AND job_id>? AND job_id<?)"),
        ("ended_after", "punctual_runs_finished ((finished_at,job_id)>(?,?))"),
        ("schedules_filtered", "punctual_schedules_name (name>?)"),
        ("schedules_filtered_of_owner", "punctual_schedules_owner (owner=? AND name>?)"),
        ("next_schedules", "punctual_schedule_state_due"),
        ("managed_page_of_owner", "punctual_managed_things_owner (owner=? AND "),
        ("audit_page_of_subject", "punctual_audit_log_subject (subject=? AND id<?)"),
    ] {
        let plan = plan(&connection, statement(name));
        assert!(plan.iter().any(|line| line.contains(index)), "{name}: {plan:#?}");
    }
}

/// A million schedules, of which ten are due: made by SQL, because making them one by one is not what is shown.
fn a_million_schedules(connection: &Connection, now: Timestamp) {
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    let now_us = now.as_microsecond();
    connection.execute_batch("BEGIN").unwrap();
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)";
    let id = "unhex(printf('%032x', i))";
    connection
        .execute(
            &format!(
                "INSERT INTO punctual_schedules
                   (id, name, cron, target, seed, anchor_at, created_at, updated_at)
                 {numbers} SELECT {id}, 's' || i, '0 3 * * *', '{{\"kind\":\"command\",\"argv\":[\"true\"]}}', 's' || i,
                   ?1 - 90000000000, ?1 - 90000000000, ?1 - 90000000000 FROM n"
            ),
            params![now_us],
        )
        .unwrap();
    // Ten were due a moment ago; the rest are due tomorrow.
    connection
        .execute(
            &format!(
                "INSERT INTO punctual_schedule_state (schedule_id, next_slot_at, next_run_at)
                 {numbers} SELECT {id}, ?1 + iif(i % 100000 = 0, -1000000, 86400000000),
                   ?1 + iif(i % 100000 = 0, -1000000, 86400000000) FROM n"
            ),
            params![now_us],
        )
        .unwrap();
    connection.execute_batch("COMMIT").unwrap();
}

#[tokio::test]
async fn e08_firing_ten_of_a_million_reads_about_ten_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (store, connection) = new_store(folder.path());
    let now = Timestamp::now();
    a_million_schedules(&connection, now);

    let mut due = connection.prepare(statement("due_schedules")).unwrap();
    let found = due.query_map(params![now.as_microsecond(), 1000], |_| Ok(())).unwrap().count();
    assert_eq!(found, 10);
    assert_eq!(due.get_status(StatementStatus::FullscanStep), 0);
    assert_eq!(due.get_status(StatementStatus::Sort), 0);
    // Some hundred steps of the virtual machine for each row that is returned, and none for the others.
    let steps = due.get_status(StatementStatus::VmStep);
    assert!(steps < 10 * 500, "{steps} steps for ten rows of a million");

    let fired = store.fire_due(None, 1000).await.unwrap();
    assert_eq!((fired.schedules, fired.jobs.len(), fired.problems), (10, 10, 0));
    let again = store.fire_due(None, 1000).await.unwrap();
    assert_eq!((again.schedules, again.jobs.len()), (0, 0));
}

/// How many steps SQLite takes to write one row, as a statement in words.
fn steps(connection: &Connection, insert: &str) -> i32 {
    let mut statement = connection.prepare(insert).unwrap();
    statement.execute([]).unwrap();
    statement.get_status(StatementStatus::VmStep)
}

/// A set of words in a CHECK is a table that SQLite makes anew for each row, unless what is asked for before it settles the
/// matter. Steps are counted, not time: the same for the same schema and library.
#[test]
fn e08_what_most_rows_of_the_hot_tables_have_is_checked_without_making_a_table_of_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checks.db");
    SqliteStore::open(&file, SqliteOptions::default()).unwrap();
    let connection = Connection::open(&file).unwrap();
    connection.pragma_update(None, "foreign_keys", "OFF").unwrap();
    let run = |id: &str, outcome: &str, error: &str| {
        let columns = "job_id, finished_at, outcome, error_code, final";
        steps(&connection, &format!("INSERT INTO punctual_runs ({columns}) VALUES (x'{id}', 0, {outcome}, {error}, 1)"))
    };
    let job = |id: char, trigger: &str| {
        let columns = "id, created_at, lane_id, priority, target, input, retry, trigger";
        let id = id.to_string().repeat(32);
        let values = format!("x'{id}', 0, 1, 0, '{{}}', '{{}}', '{{}}', {trigger}");
        steps(&connection, &format!("INSERT INTO punctual_jobs ({columns}) VALUES ({values})"))
    };
    let slot = |at: i64, decision: &str, reason: &str, job: &str| {
        let columns =
            "schedule_id, slot_at, through, count, decision, reason, job_id, decided_at, late_ms, schedule_version";
        let values = format!("x'01', {at}, {at}, 1, {decision}, {reason}, {job}, 0, 0, 1");
        steps(&connection, &format!("INSERT INTO punctual_slots ({columns}) VALUES ({values})"))
    };
    // A word costs three steps in its table, and each of these sets has more than four of them; two checks settle the
    // matter of a run, of which the one of errors has sixteen.
    let (most, rare) = (run("01", "'completed'", "NULL"), run("02", "'cancelled'", "'replaced'"));
    assert!(most + 40 < rare, "a run that completed takes {most} steps, one that was replaced {rare}");
    let (most, rare) = (job('1', "'api'"), job('2', "'backfill'"));
    assert!(most + 12 < rare, "a job of the API takes {most} steps, one of a backfill {rare}");
    assert!(job('3', "'schedule'") <= most, "nor does one of a schedule");
    let (most, rare) = (slot(1, "'fired'", "'on_time'", "x'01'"), slot(2, "'skipped'", "'edited'", "NULL"));
    assert!(most + 24 < rare, "a slot that fired in time takes {most} steps, one that was skipped {rare}");
}
