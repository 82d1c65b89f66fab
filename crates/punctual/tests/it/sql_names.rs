//! The names that people and their programs rely on: every public view, column, function and type, as it is today. A
//! change here breaks somebody; add behind what is there, and never rename.

use crate::sql_world::SqlWorld;

const COLUMNS: &str = "\
jobs_overview: id uuid, job_type text, state text, queue text, priority integer, attempt integer, job_key text, \
serial_key text, tags json, input json, created_at timestamp with time zone, run_at timestamp with time zone, \
started_at timestamp with time zone, completed_at timestamp with time zone, error_code text, error text, \
schedule_name text, owner text
scheduled_job_runs: id uuid, job_id bigint, job_name text, started_at timestamp with time zone, \
completed_at timestamp with time zone, duration_ms bigint, success boolean, message text, details jsonb, \
scheduled_for timestamp with time zone, triggered_by text, attempt integer, outcome text, error_code text, node text, \
output json
scheduled_job_status: job_id bigint, name text, enabled boolean, last_run_at timestamp with time zone, \
last_run_success boolean, total_runs bigint, success_rate_percent numeric, avg_duration_ms numeric, \
max_duration_ms bigint, running bigint, next_run_at timestamp with time zone, problem text
scheduled_jobs: id bigint, name text, description text, function_name text, schedule text, timezone text, \
enabled boolean, last_run_at timestamp with time zone, created_at timestamp with time zone, \
updated_at timestamp with time zone, connection text, input json, queue text, priority integer, serial boolean, \
overlap text, missed text, timeout interval, max_attempts integer, jitter interval, \
starts_at timestamp with time zone, ends_at timestamp with time zone, calendar text, labels json, owner text, \
schedule_id uuid, kind text, next_run_at timestamp with time zone, problem text, \
paused_at timestamp with time zone, pause_note text, paused_until timestamp with time zone
slots: job_id bigint, job_name text, slot_at timestamp with time zone, through timestamp with time zone, count bigint, \
decision text, reason text, note text, late_ms bigint, decided_at timestamp with time zone, run_id uuid, node text";

const FUNCTIONS: &str = "\
add_job(identifier text, payload json DEFAULT NULL::json, queue_name text DEFAULT NULL::text, \
run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, max_attempts integer DEFAULT NULL::integer, \
job_key text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, flags text[] DEFAULT NULL::text[], \
job_key_mode text DEFAULT 'replace'::text, queue text DEFAULT 'default'::text, timeout interval DEFAULT NULL::interval, \
function_name text DEFAULT NULL::text, connection text DEFAULT NULL::text, trace_context text DEFAULT NULL::text) uuid
add_jobs(specs punctual.job_spec[], job_key_preserve_run_at boolean DEFAULT false) SETOF uuid
cancel_job(job_id uuid) jsonb
pause_schedule(job_name text, note text DEFAULT NULL::text, \
until timestamp with time zone DEFAULT NULL::timestamp with time zone) jsonb
reschedule(job_name text, at timestamp with time zone) jsonb
resume_schedule(job_name text) jsonb
retry_job(job_id uuid) uuid
set_owner_checks(switched_on boolean) void
skip_next(job_name text) jsonb
trigger_scheduled_job(job_name text, input json DEFAULT NULL::json) jsonb";

const TYPES: &str = "\
job_spec: identifier text, payload json, queue_name text, run_at timestamp with time zone, max_attempts integer, \
job_key text, priority integer, flags text[], queue text, timeout interval, function_name text, connection text, \
trace_context text";

/// Of a kind of relation: `v` for views, `c` for types that are rows.
fn relations(kind: char) -> String {
    format!(
        "SELECT c.relname || ': ' || string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
         FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind = '{kind}' GROUP BY c.relname ORDER BY c.relname"
    )
}

const SIGNATURES: &str = "
    SELECT proname || '(' || pg_get_function_arguments(oid) || ') ' || pg_get_function_result(oid) FROM pg_proc
    WHERE pronamespace = 'punctual'::regnamespace ORDER BY 1";

/// What is in the schema besides.
const OTHERS: &str = "
    SELECT relname::text FROM pg_class WHERE relnamespace = 'punctual'::regnamespace AND relkind NOT IN ('v', 'c')
    UNION ALL SELECT typname::text FROM pg_type
    WHERE typnamespace = 'punctual'::regnamespace AND typrelid = 0 AND typelem = 0";

/// Whatever has no comment.
const UNEXPLAINED: &str = "
    SELECT c.relname::text FROM pg_class AS c
    WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind = 'v' AND obj_description(c.oid, 'pg_class') IS NULL
    UNION ALL SELECT c.relname || '.' || a.attname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind IN ('v', 'c') AND col_description(c.oid, a.attnum) IS NULL
    UNION ALL SELECT proname::text FROM pg_proc
    WHERE pronamespace = 'punctual'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL
    UNION ALL SELECT typname::text FROM pg_type
    WHERE typnamespace = 'punctual'::regnamespace AND typrelid <> 0 AND obj_description(oid, 'pg_type') IS NULL
      AND (SELECT relkind FROM pg_class WHERE oid = typrelid) = 'c'
    UNION ALL SELECT 'schema punctual' WHERE obj_description('punctual'::regnamespace, 'pg_namespace') IS NULL";

/// Whose search path somebody else could choose.
const OPEN: &str = "
    SELECT proname::text FROM pg_proc WHERE pronamespace = 'punctual'::regnamespace
      AND NOT EXISTS (SELECT 1 FROM unnest(proconfig) AS setting WHERE setting LIKE 'search_path=%')";

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b03_the_public_names_stay_what_they_are_and_explain_themselves() {
    let world = SqlWorld::with_worker_alone().await;
    assert_eq!(world.texts("", &relations('v')).await, lines(COLUMNS));
    assert_eq!(world.texts("", &relations('c')).await, lines(TYPES));
    assert_eq!(world.texts("", SIGNATURES).await, lines(FUNCTIONS));
    let none = Vec::<String>::new();
    assert_eq!(world.texts("", OTHERS).await, none, "nothing else is public");
    assert_eq!(world.texts("", UNEXPLAINED).await, none, "these have no COMMENT");
    assert_eq!(world.texts("", OPEN).await, none, "these have no search_path of their own");
}
