//! How the hot statements are carried out: index scans whatever the tables hold, no full scan, no sort (E08).

use crate::harness::{Own, own_settings};
use punctual_store_postgres::sql;
use punctual_testkit::harness::block_on;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// The statements whose cost must depend on what they return, and how many parameters each has.
const HOT: &[(&str, usize)] = &[
    ("due_schedules", 2),
    ("unplanned_schedules", 1),
    ("resumable_schedules", 2),
    ("reconcile_page", 2),
    ("next_due", 1),
    ("take_due_delayed", 2),
    ("claim_jobs", 7),
    ("take_running", 3),
    ("give_back", 3),
    ("close_runs", 13),
    ("append_log", 8),
    ("log_page", 3),
    ("insert_slots", 12),
    ("set_plan", 9),
    ("make_job", 17),
    ("make_jobs", 30),
    ("make_jobs_alike", 18),
    ("fire_slots", 12),
    ("close_alike", 6),
    ("close_completed", 12),
    ("hold_serial_others", 1),
    ("ready_serial_heads", 1),
    ("lock_serial_keys", 1),
    ("lock_serial_keys_of_running", 1),
    ("heartbeat", 2),
    ("live_jobs", 1),
    ("job_view", 1),
    ("jobs_by_id", 1),
    ("schedule_by_id", 1),
    ("schedule_by_name", 1),
    ("schedules_page", 2),
    ("schedule_jobs_page", 3),
    ("slots_page", 3),
    ("queue_page", 6),
    ("record_results", 9),
    ("insert_slots_alone", 12),
    ("due_soon", 2),
    ("prune_candidates", 6),
    ("open_notices", 1),
    ("line", 2),
    ("taken_of_line", 1),
    ("sight_overdue", 2),
    ("jobs_after", 2),
    ("ended_after", 3),
    ("jobs_page", 12),
    ("jobs_page_delayed", 12),
    ("jobs_page_of_owner", 12),
    ("jobs_page_of_schedule", 12),
    ("jobs_page_queue", 12),
    ("jobs_page_running", 12),
    ("jobs_page_runs", 12),
    ("jobs_page_runs_not_completed", 12),
    ("jobs_page_runs_of_error", 12),
    ("scan_jobs", 3),
    ("scan_jobs_of_owner", 4),
    ("scan_jobs_of_schedule", 4),
    ("scan_runs_not_completed", 4),
    ("scan_schedules", 4),
    ("scan_schedules_of_owner", 4),
    ("schedules_filtered", 11),
    ("schedules_filtered_of_owner", 11),
    ("next_schedules", 3),
    ("queues_page", 5),
    ("running_figures", 1),
    ("nodes_page", 2),
    ("nodes_page_alive", 2),
    ("stats", 0),
    ("ended_figures", 2),
    ("managed_page", 3),
    ("managed_page_of_owner", 4),
    ("audit_page", 2),
    ("audit_page_of_subject", 3),
    ("audit_after", 2),
    ("session_by_hash", 1),
];

/// Those that may sort what they have already limited: the heads of several lanes, a page, or the batch itself.
const MAY_SORT: &[&str] = &[
    "claim_jobs",
    "queue_page",
    "make_jobs",
    "record_results",
    "close_completed",
    "take_due_delayed",
    "heartbeat",
    "live_jobs",
    "lock_serial_keys",
    "append_log",
    "next_due",
    "lock_serial_keys_of_running",
    "schedules_page",
    "schedule_jobs_page",
    "jobs_after",
    "ended_after",
    "running_figures",
    "ended_figures",
    "queues_page",
    "nodes_page",
    "nodes_page_alive",
];

/// Tables that are small by nature.
const SMALL: &[&str] = &["lanes", "queues", "reservations", "leases", "nodes", "waits", "told", "fire_cap"];

/// Thirty thousand of everything that grows.
const FILL: &str = "
    INSERT INTO punctual_internal.queues (name, created_at) SELECT 'q' || i, now() FROM generate_series(1, 3) AS i;
    INSERT INTO punctual_internal.lanes (queue, job_type) SELECT 'q' || i, 'task:work' FROM generate_series(1, 3) AS i;
    CREATE TEMP TABLE n AS SELECT i, (lpad(to_hex(1772323200000 + i * 1000), 12, '0') || '70008000'
      || lpad(to_hex(i), 12, '0'))::uuid AS id, '2026-03-01'::timestamptz + i * interval '1 second' AS at,
      ('00000000-0000-0000-0000-' || lpad((i % 100)::text, 12, '0'))::uuid AS busy
      FROM generate_series(1, 30000) AS i;
    INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at, owner)
      SELECT id, 's' || i, '* * * * *', '{}', 's', at, at, at, CASE WHEN i % 50 = 0 THEN 'ada' END FROM n;
    INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at) SELECT id, at, at FROM n;
    INSERT INTO punctual_internal.schedule_results (schedule_id) SELECT id FROM n;
    INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, trigger, schedule_id, owner)
      SELECT id, at, 1 + i % 3, 0, '{}', '{}', '{}', 'api', busy, CASE WHEN i % 50 = 0 THEN 'ada' END FROM n;
    INSERT INTO punctual_internal.runs (job_id, finished_at, final, outcome, error_code)
      SELECT id, at, true, CASE WHEN i % 100 = 0 THEN 'failed' ELSE 'completed' END,
             CASE WHEN i % 100 = 0 THEN 'timeout' END FROM n;
    INSERT INTO punctual_internal.managed_things (kind, name, owner, definition, applied_at)
      SELECT 'schedule', 's' || i, CASE WHEN i % 50 = 0 THEN 'ada' ELSE 'ops' END, '{}', at FROM n;
    INSERT INTO punctual_internal.audit_log (id, at, actor, action, subject)
      SELECT id, at, 'ada', 'schedule.pause', 'schedule:' || i % 100 FROM n;
    INSERT INTO punctual_internal.api_tokens (id, prefix, hash, name, owner, role, created_at)
      SELECT id, 't' || i, decode(repeat('00', 32), 'hex'), 't', 'ada', 'viewer', at FROM n;
    INSERT INTO punctual_internal.sessions (hash, token_id, expires_at)
      SELECT sha256(id::text::bytea), id, at FROM n;
    INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key)
      SELECT id, 1 + i % 3, 0, i % 10 > 0, i, at, at, CASE WHEN i % 10 = 0 THEN 'k' || i END FROM n;
    INSERT INTO punctual_internal.serial_keys (key) SELECT 'k' || i FROM n;
    INSERT INTO punctual_internal.delayed (job_id, run_at) SELECT id, at FROM n;
    INSERT INTO punctual_internal.running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                           queued_at, started_at)
      SELECT id, id, id, id, 1, 0, i, at, at, at FROM n;
    INSERT INTO punctual_internal.schedule_live (schedule_id, job_id) SELECT id, id FROM n;
    INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decided_at, late_ms, schedule_version,
                                         decision, reason)
      SELECT busy, at, at, 1, at, 0, 1, 'skipped', 'paused' FROM n;
    INSERT INTO punctual_internal.outbox (id, created_at, kind, payload) SELECT id, at, 'node_lost', '{}' FROM n;
    INSERT INTO punctual_internal.run_logs (job_id, sequence, lines)
      SELECT id, s, '[]' FROM n CROSS JOIN generate_series(1, 3) AS s;
    INSERT INTO punctual_internal.run_progress (job_id, told_at, percent, note) SELECT id, at, 1, '' FROM n;
    ANALYZE;
";

async fn plan(client: &Client, name: &str, params: usize) -> String {
    let text = sql::ALL.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no statement {name}")).1;
    // Not every page of jobs looks at the fourth, so that its type must be told.
    let types = match name.strip_prefix("jobs_page") {
        Some("_of_schedule") => "(uuid, bigint, bigint, uuid)",
        Some(_) => "(uuid, bigint, bigint, text)",
        None => "",
    };
    client
        .batch_execute(&format!("PREPARE hot {types} AS {text}"))
        .await
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let nulls = if params == 0 { String::new() } else { format!("({})", vec!["NULL"; params].join(", ")) };
    let lines = client.query(&format!("EXPLAIN EXECUTE hot{nulls}"), &[]).await;
    let lines = lines.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    client.batch_execute("DEALLOCATE hot").await.unwrap();
    lines.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

/// Whether a line of a plan reads a whole table that may be large.
fn scans_all(line: &str) -> bool {
    let Some((_, table)) = line.split_once("Seq Scan on ") else { return false };
    let table = table.split_whitespace().next().unwrap_or_default();
    // What costs nothing is a partition that the test left empty.
    !SMALL.contains(&table) && !line.contains("(cost=0.00..0.00 ")
}

/// Whether a line of a plan sorts; merging what is sorted already does not.
fn sorts(line: &str) -> bool {
    let step = line.trim_start_matches([' ', '-', '>']);
    step.starts_with("Sort  (") || step.starts_with("Incremental Sort  (")
}

#[test]
fn e08_no_hot_statement_scans_a_table_or_sorts() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let client = own.database.connect().await;
        client.batch_execute(FILL).await.unwrap();
        client.batch_execute(&own_settings()).await.unwrap();
        let mut costly = Vec::new();
        for (name, params) in HOT {
            let plan = plan(&client, name, *params).await;
            let sorts = plan.lines().any(sorts) && !MAY_SORT.contains(name);
            if sorts || plan.lines().any(scans_all) {
                costly.push(format!("{name}:\n{plan}"));
            }
        }
        assert!(costly.is_empty(), "{}", costly.join("\n\n"));
        // And the indexes are those that were made for them.
        for (name, params, index) in [
            ("due_schedules", 2, "schedule_state_due"),
            ("unplanned_schedules", 1, "schedule_state_unplanned"),
            ("next_due", 1, "schedule_state_due"),
            ("take_due_delayed", 2, "delayed_due"),
            ("claim_jobs", 7, "queue_ready"),
            ("ready_serial_heads", 1, "queue_serial"),
            ("schedules_filtered", 11, "schedules_name"),
            ("schedules_filtered_of_owner", 11, "schedules_owner"),
            ("next_schedules", 3, "schedule_state_due"),
            ("audit_page_of_subject", 3, "audit_log_subject"),
            ("managed_page_of_owner", 4, "managed_things_owner"),
        ] {
            let plan = plan(&client, name, params).await;
            assert!(plan.contains(&format!("using {index} ")), "{name}:\n{plan}");
        }
    });
}

#[test]
fn e08_an_end_looks_for_its_jobs_and_not_for_all_that_its_node_runs() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let client = own.database.connect().await;
        client.batch_execute(FILL).await.unwrap();
        client.batch_execute(&own_settings()).await.unwrap();
        for (name, params) in [("take_running", 3), ("give_back", 3), ("close_alike", 6), ("close_completed", 12)] {
            let plan = plan(&client, name, params).await;
            assert!(plan.contains("running_pkey") && !plan.contains("running_lease"), "{name}:\n{plan}");
        }
    });
}

/// The first column of each index, by the index's name.
async fn leading_columns(client: &Client) -> BTreeMap<String, String> {
    let find = "SELECT c.relname, pg_get_indexdef(i.indexrelid, 1, true) FROM pg_index AS i
                JOIN pg_class AS c ON c.oid = i.indexrelid
                WHERE c.relnamespace = 'punctual_internal'::regnamespace";
    client.query(find, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Tables that are empty again and again, because what is in them is worked off, or when the first plans are made.
const EMPTY_AT_TIMES: &[&str] = &[
    "queue",
    "running",
    "delayed",
    "serial_keys",
    "schedule_live",
    "flow_jobs",
    "outbox",
    "deliveries",
    "schedules",
    "schedule_state",
];

/// The lines of a plan that look something up in an index without knowing the first column of it: each look reads the
/// whole index.
fn lost_look_ups(plan: &str, leading: &BTreeMap<String, String>) -> Vec<String> {
    let lines: Vec<&str> = plan.lines().collect();
    let looks = lines.windows(2).filter_map(|pair| {
        let (index, table) = pair[0].split_once(" using ")?.1.split_once(" on ")?;
        EMPTY_AT_TIMES.contains(&table.split(' ').next()?).then_some(())?;
        let known = pair[1].trim_start().strip_prefix("Index Cond: ")?;
        let column = leading.get(index)?;
        (!known.contains(column.as_str())).then(|| format!("{}\n{}", pair[0], pair[1]))
    });
    looks.collect()
}

/// Nobody makes a plan anew because a table has grown.
#[test]
fn e08_plans_that_were_made_of_empty_tables_hold_when_they_are_full() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let client = own.database.connect().await;
        client.batch_execute("VACUUM ANALYZE").await.unwrap();
        client.batch_execute(&own_settings()).await.unwrap();
        let leading = leading_columns(&client).await;
        let mut lost = Vec::new();
        for (name, params) in HOT {
            let found = lost_look_ups(&plan(&client, name, *params).await, &leading);
            lost.extend(found.iter().map(|look| format!("{name}:\n{look}")));
        }
        assert!(lost.is_empty(), "{}", lost.join("\n\n"));
    });
}
