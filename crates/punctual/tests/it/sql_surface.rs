//! Schedules by INSERT, UPDATE and DELETE, with `psql` alone: what source B does, and functions that misbehave.

use crate::process::Ear;
use crate::sql_world::SqlWorld;

/// The function of source B, and what it works on.
const CLEANUP: &str = "
    CREATE TABLE jobs.some_temp_table (created_at timestamptz NOT NULL);
    INSERT INTO jobs.some_temp_table SELECT now() - n * interval '20 days' FROM generate_series(0, 4) AS n;
    CREATE OR REPLACE FUNCTION jobs.run_daily_cleanup() RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = jobs, public AS $$
    DECLARE
      v_deleted int;
    BEGIN
      DELETE FROM some_temp_table WHERE created_at < now() - interval '30 days';
      GET DIAGNOSTICS v_deleted = ROW_COUNT;
      RETURN jsonb_build_object('success', true, 'message', format('Deleted %s old records', v_deleted),
                                'details', jsonb_build_object('deleted_count', v_deleted));
    END $$;";

const REGISTER: &str = "
    INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, timezone, description)
    VALUES ('daily_cleanup', 'jobs.run_daily_cleanup', '0 3 * * *', 'America/New_York', 'Old temporary records')";

/// A function that keeps the contract, and counts its calls in a table that only its owner may write.
const TICK: &str = "
    CREATE TABLE jobs.ticks (name text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
    CREATE FUNCTION jobs.tick(input jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = jobs AS $$
    BEGIN
      INSERT INTO ticks (name) VALUES (input ->> 'name');
      RETURN '{\"success\": true, \"message\": \"ticked\"}';
    END $$;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_the_usage_of_source_b_runs_in_psql_alone() {
    let world = SqlWorld::new().await;
    let _worker = world.start_worker(&Ear::new());
    world.done("ada", CLEANUP);
    assert_eq!(
        world.done("ada", &format!("{REGISTER} RETURNING name, owner")),
        format!("daily_cleanup|{}", world.name("ada"))
    );

    // Three in the morning in New York, whatever the season.
    let planned = "SELECT extract(hour FROM next_run_at AT TIME ZONE timezone), next_run_at > now()
                   FROM punctual.scheduled_jobs WHERE name = 'daily_cleanup'";
    world.until_shown("ada", planned, "3|t").await;
    let next = world.done("ada", "SELECT next_run_at FROM punctual.scheduled_jobs");

    // By hand: the owner, or an administrator; nobody else.
    let answer = "FROM (SELECT punctual.trigger_scheduled_job('daily_cleanup') AS it) AS answer";
    assert_eq!(
        world.done("ada", &format!("SELECT it ->> 'success', it ->> 'job_name' {answer}")),
        "true|daily_cleanup"
    );
    let status = "SELECT name, enabled, last_run_at IS NOT NULL, last_run_success, total_runs, success_rate_percent
                  FROM punctual.scheduled_job_status";
    world.until_shown("ada", status, "daily_cleanup|t|t|t|1|100.00").await;
    let run = world.done("grace", &format!("SELECT it ->> 'run_id' {answer}"));
    world.until_shown("rita", status, "daily_cleanup|t|t|t|2|100.00").await;

    let history = format!(
        "SELECT r.started_at <= r.completed_at, success, message, details ->> 'deleted_count', triggered_by, r.id = '{run}'
         FROM punctual.scheduled_job_runs AS r WHERE job_id = (SELECT id FROM punctual.scheduled_jobs)
         ORDER BY started_at DESC LIMIT 10"
    );
    let rows = "t|t|Deleted 0 old records|0|manual|t\nt|t|Deleted 3 old records|3|manual|f";
    assert_eq!(world.done("ada", &history), rows);
    assert_eq!(world.done("ada", "SELECT next_run_at FROM punctual.scheduled_jobs"), next, "triggering moves nothing");

    // What source B asks of the history, beside what the view says by itself.
    let figures = "
        SELECT sj.name, count(*), abs(avg(duration_ms) - s.avg_duration_ms) < 1, max(duration_ms) = s.max_duration_ms,
               sum(CASE WHEN success THEN 1 ELSE 0 END)::float / count(*) * 100
        FROM punctual.scheduled_job_runs AS r JOIN punctual.scheduled_jobs AS sj ON r.job_id = sj.id
        JOIN punctual.scheduled_job_status AS s ON s.job_id = sj.id
        WHERE r.started_at > now() - interval '7 days' GROUP BY sj.name, s.avg_duration_ms, s.max_duration_ms";
    assert_eq!(world.done("ada", figures), "daily_cleanup|2|t|t|100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_job_is_triggered_by_its_owner_or_an_admin_and_by_nobody_else() {
    let world = SqlWorld::new().await;
    world.done("ada", TICK);
    let insert = "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, input)
                  VALUES ('tick', 'jobs.tick', '@yearly', '{\"name\": \"usual\"}')";
    world.done("ada", insert);
    let trigger = "SELECT punctual.trigger_scheduled_job('tick')";
    for who in ["bert", "rita"] {
        let said = world.refused(who, &format!("\\set VERBOSITY verbose\n{trigger}"));
        assert!(said.contains("42501"), "{said}");
    }
    assert!(world.refused("bert", trigger).contains("HINT:"));
    let said = world.refused("ada", "SELECT punctual.trigger_scheduled_job('tock')");
    assert!(said.contains("tock") && said.contains("HINT:"), "{said}");
    // What is rolled back was never triggered.
    world.done("ada", &format!("BEGIN; {trigger}; ROLLBACK"));
    assert_eq!(world.number("SELECT count(*) FROM {jobs}").await, 0);

    let _worker = world.start_worker(&Ear::new());
    let next = "SELECT next_run_at FROM punctual.scheduled_jobs";
    let planned = world.until_answer("ada", next, |next| !next.is_empty()).await;
    world.done("ada", trigger);
    world.done("grace", "SELECT punctual.trigger_scheduled_job('tick', '{\"name\": \"for once\"}')");
    let ticks = "SELECT string_agg(name, ', ' ORDER BY name) FROM jobs.ticks";
    world.until_shown("ada", ticks, "for once, usual").await;
    assert_eq!(world.done("ada", next), planned, "triggering moves nothing");
}

/// A job of which two runs succeeded and then one failed, one after another.
async fn two_good_and_one_bad(world: &SqlWorld) {
    world.done(
        "ada",
        "CREATE FUNCTION jobs.mixed(input jsonb) RETURNS jsonb LANGUAGE sql AS $$
           SELECT jsonb_build_object('success', input -> 'good', 'message', 'as asked') $$;
         INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, max_attempts)
         VALUES ('mixed', 'jobs.mixed', '@yearly', 1)",
    );
    for (n, good) in [(1, true), (2, true), (3, false)] {
        world.done("ada", &format!("SELECT punctual.trigger_scheduled_job('mixed', '{{\"good\": {good}}}')"));
        world.until_shown("ada", "SELECT total_runs FROM punctual.scheduled_job_status", &n.to_string()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_the_status_of_a_job_is_what_its_runs_were() {
    let world = SqlWorld::new().await;
    let _worker = world.start_worker(&Ear::new());
    let status =
        "SELECT name, enabled, last_run_at IS NOT NULL, last_run_success, total_runs, success_rate_percent, running,
                         next_run_at > now() FROM punctual.scheduled_job_status";
    two_good_and_one_bad(&world).await;
    world.until_shown("rita", status, "mixed|t|t|f|3|66.67|0|t").await;
    world.done("ada", "UPDATE punctual.scheduled_jobs SET enabled = false");
    assert_eq!(world.done("rita", status), "mixed|f|t|f|3|66.67|0|");
    world.done("ada", "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('a new one', 'jobs.mixed', '@yearly')");
    world.until_shown("rita", &format!("{status} ORDER BY name LIMIT 1"), "a new one|t|f||0||0|t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b09_figures_over_any_window_are_plain_sql() {
    let world = SqlWorld::new().await;
    let _worker = world.start_worker(&Ear::new());
    two_good_and_one_bad(&world).await;
    let over = |window: &str| {
        format!(
            "SELECT job_name, count(*), round(100.0 * count(*) FILTER (WHERE success) / count(*), 2),
                    avg(duration_ms) BETWEEN min(duration_ms) AND max(duration_ms)
             FROM punctual.scheduled_job_runs WHERE {window} GROUP BY job_name"
        )
    };
    assert_eq!(world.done("ada", &over("started_at > now() - interval '7 days'")), "mixed|3|66.67|t");
    let second = "SELECT started_at FROM punctual.scheduled_job_runs ORDER BY started_at OFFSET 1 LIMIT 1";
    assert_eq!(world.done("ada", &over(&format!("started_at >= ({second})"))), "mixed|2|50.00|t");
    assert_eq!(world.done("ada", &over("started_at > now()")), "");
    // The view's own figures are of the same runs.
    let agree = "SELECT abs(avg(r.duration_ms) - s.avg_duration_ms) < 1, max(r.duration_ms) = s.max_duration_ms
                 FROM punctual.scheduled_job_runs AS r JOIN punctual.scheduled_job_status AS s USING (job_id)
                 GROUP BY s.avg_duration_ms, s.max_duration_ms";
    assert_eq!(world.done("ada", agree), "t|t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_a_change_takes_effect_without_a_restart() {
    let world = SqlWorld::new().await;
    let _worker = world.start_worker(&Ear::new());
    world.done("ada", TICK);
    let put = |name: &str, schedule: &str| {
        let sql = format!(
            "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, input)
             VALUES ('{name}', 'jobs.tick', '{schedule}', '{{\"name\": \"{name}\"}}')
             ON CONFLICT (name) DO UPDATE SET schedule = excluded.schedule"
        );
        world.done("ada", &sql);
    };
    let ticked = |name: &str, times: u32| format!("SELECT count(*) >= {times} FROM jobs.ticks WHERE name = '{name}'");

    // Made: it fires by itself, and says so.
    put("witness", "* * * * * *");
    put("one", "0 0 1 1 *");
    world.until_shown("ada", &ticked("witness", 2), "t").await;
    let by = "SELECT DISTINCT triggered_by FROM punctual.scheduled_job_runs WHERE job_name = 'witness' AND scheduled_for IS NOT NULL";
    assert_eq!(world.done("ada", by), "scheduler");
    assert_eq!(world.done("ada", "SELECT count(*) FROM jobs.ticks WHERE name = 'one'"), "0");

    // Changed by ON CONFLICT, the id stays.
    let id = world.done("ada", "SELECT id, schedule_id FROM punctual.scheduled_jobs WHERE name = 'one'");
    put("one", "* * * * * *");
    world.until_shown("ada", &ticked("one", 1), "t").await;
    assert_eq!(world.done("ada", "SELECT id, schedule_id FROM punctual.scheduled_jobs WHERE name = 'one'"), id);

    // Switched off: nothing more is fired, while the other one goes on.
    world.done("ada", "UPDATE punctual.scheduled_jobs SET enabled = false WHERE name = 'one'");
    let fired = "SELECT count(*) FROM punctual.slots WHERE job_name = 'one' AND decision = 'fired'";
    let before = world.done("ada", fired);
    let seen: u32 = world.done("ada", "SELECT count(*) FROM jobs.ticks WHERE name = 'witness'").parse().unwrap();
    world.until_shown("ada", &ticked("witness", seen + 3), "t").await;
    assert_eq!(world.done("ada", fired), before);

    // On again, and gone.
    world.done("ada", "UPDATE punctual.scheduled_jobs SET enabled = true WHERE name = 'one'");
    world
        .until_shown(
            "ada",
            &format!("SELECT count(*) > {before} FROM punctual.slots WHERE job_name = 'one' AND decision = 'fired'"),
            "t",
        )
        .await;
    assert_eq!(world.done("ada", "DELETE FROM punctual.scheduled_jobs WHERE name = 'one' RETURNING name"), "one");
    // The views show what is there; the ledger keeps what was.
    let kept = "SELECT count(*) FROM {slots} WHERE decision = 'fired' AND schedule_id <>
                (SELECT schedule_id FROM punctual.scheduled_jobs WHERE name = 'witness')";
    let ended = world.number(kept).await;
    assert!(ended > before.parse().unwrap());
    let seen: u32 = world.done("ada", "SELECT count(*) FROM jobs.ticks WHERE name = 'witness'").parse().unwrap();
    world.until_shown("ada", &ticked("witness", seen + 3), "t").await;
    assert_eq!(world.done("ada", "SELECT name FROM punctual.scheduled_jobs"), "witness");
    assert_eq!(world.number(kept).await, ended, "its history stays, and nothing comes to it");

    // A name is free again; a change that is rolled back never was.
    put("one", "0 0 1 1 *");
    world
        .done("ada", "BEGIN; UPDATE punctual.scheduled_jobs SET schedule = '* * * * * *' WHERE name = 'one'; ROLLBACK");
    assert_eq!(world.done("ada", "SELECT schedule FROM punctual.scheduled_jobs WHERE name = 'one'"), "0 0 1 1 *");
}

/// Whoever changes a schedule locks it in one order, and the node that carries the change out waits for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_changes_in_quick_succession_are_not_in_the_way_of_the_scheduler() {
    let world = SqlWorld::new().await;
    let ear = Ear::new();
    let _workers = [world.start_worker(&ear), world.start_worker(&ear)];
    world.done("ada", TICK);
    let insert =
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('busy', 'jobs.tick', '@daily')";
    world.done("ada", insert);
    let change = |n: u32| {
        let (hour, enabled) = (n % 24, !n.is_multiple_of(3));
        format!("UPDATE punctual.scheduled_jobs SET schedule = '0 {hour} * * *', enabled = {enabled};\n")
    };
    let changes: Vec<String> = (0..108).map(change).collect();
    world.done("ada", &changes.concat());
    let planned =
        "SELECT schedule, extract(hour FROM next_run_at AT TIME ZONE 'UTC'), problem FROM punctual.scheduled_jobs";
    world.until_shown("ada", planned, "0 11 * * *|11|").await;
}

/// What becomes of a function that does not do as it should: its name, how it is made, and what its run says.
const BAD: [(&str, &str, &str, &str); 5] = [
    (
        "raises",
        "RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no money' USING HINT = 'earn some'; END $$",
        "target_error",
        "no money",
    ),
    (
        "says_no",
        "RETURNS jsonb LANGUAGE sql AS $$ SELECT '{\"success\": false, \"message\": \"not today\"}'::jsonb $$",
        "target_error",
        "not today",
    ),
    ("text", "RETURNS text LANGUAGE sql AS $$ SELECT 'fine' $$", "bad_output", "jsonb"),
    (
        "dropped",
        "RETURNS jsonb LANGUAGE sql AS $$ SELECT '{\"success\": true}'::jsonb $$",
        "target_error",
        "jobs.dropped",
    ),
    (
        "closed",
        "RETURNS jsonb LANGUAGE sql AS $$ SELECT '{\"success\": true}'::jsonb $$",
        "target_rejected",
        "jobs.closed",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_a_function_that_misbehaves_is_a_failed_run_and_the_scheduler_goes_on() {
    let world = SqlWorld::new().await;
    let _worker = world.start_worker(&Ear::new());
    world.done("ada", TICK);
    for (name, made, ..) in BAD {
        let script = format!(
            "CREATE FUNCTION jobs.{name}() {made};
             INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, max_attempts)
             VALUES ('{name}', 'jobs.{name}', '* * * * * *', 1)"
        );
        world.done("ada", &script);
    }
    world.done("ada", "DROP FUNCTION jobs.dropped(); REVOKE EXECUTE ON FUNCTION jobs.closed() FROM PUBLIC");
    for (name, _, code, words) in BAD {
        let failed = format!("SELECT count(*) > 0 FROM punctual.scheduled_job_runs
                              WHERE job_name = '{name}' AND error_code = '{code}' AND NOT success AND outcome = 'failed'");
        world.until_shown("ada", &failed, "t").await;
        let message = format!(
            "SELECT message FROM punctual.scheduled_job_runs
                               WHERE job_name = '{name}' AND error_code = '{code}' ORDER BY started_at DESC LIMIT 1"
        );
        let message = world.done("ada", &message);
        assert!(message.contains(words), "{name}: {message}");
        let status = format!("SELECT last_run_success FROM punctual.scheduled_job_status WHERE name = '{name}'");
        assert_eq!(world.done("ada", &status), "f", "{name}");
    }
    // After all of them have failed, what is made now is fired and runs.
    world.done(
        "ada",
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, input)
         VALUES ('good', 'jobs.tick', '* * * * * *', '{\"name\": \"good\"}')",
    );
    world.until_shown("ada", "SELECT count(*) > 1 FROM jobs.ticks WHERE name = 'good'", "t").await;
    assert_eq!(world.done("ada", "SELECT count(*) FROM punctual.scheduled_jobs WHERE enabled"), "6");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_names_of_functions_are_identifiers_whatever_they_look_like() {
    let world = SqlWorld::new().await;
    let _worker = world.start_worker(&Ear::new());
    world.done("ada", TICK);
    // Names that only exist as they are quoted; each says its own.
    for (name, says) in [("MixedCase", "mixed"), ("a; DROP TABLE jobs.ticks; --", "odd"), ("x\"\"y", "quoted")] {
        let body = format!(r#"'{{"success": true, "message": "{says}"}}'::jsonb"#);
        world.done(
            "ada",
            &format!(
                "CREATE FUNCTION jobs.\"{name}\"() RETURNS jsonb LANGUAGE sql AS $$ SELECT {body} $$;
                 INSERT INTO punctual.scheduled_jobs (name, function_name, schedule)
                 VALUES ('{says}', 'jobs.\"{name}\"', '@yearly'); SELECT punctual.trigger_scheduled_job('{says}')"
            ),
        );
        let said = format!("SELECT message FROM punctual.scheduled_job_runs WHERE job_name = '{says}'");
        world.until_shown("ada", &said, says).await;
    }
    // Not quoted it is another name, as everywhere in SQL.
    world.done(
        "ada",
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, max_attempts)
         VALUES ('lower', 'jobs.MixedCase', '@yearly', 1); SELECT punctual.trigger_scheduled_job('lower')",
    );
    let said = "SELECT error_code FROM punctual.scheduled_job_runs WHERE job_name = 'lower'";
    world.until_shown("ada", said, "target_error").await;
    // What is no name at all is not even stored.
    for name in ["jobs.tick; DROP TABLE jobs.ticks", "\"; DROP TABLE jobs.ticks; --", "tick()", "a.b.c.d", ""] {
        let insert = format!(
            "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule) VALUES ('x', '{name}', '@yearly')"
        );
        let said = world.refused("ada", &insert);
        assert!(said.contains("ERROR:") && said.contains("HINT:"), "{name}: {said}");
    }
    // Outside of what workers may call, a name changes nothing.
    world.done(
        "ada",
        "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, max_attempts)
         VALUES ('far', 'pg_catalog.pg_reload_conf', '@yearly', 1); SELECT punctual.trigger_scheduled_job('far')",
    );
    let said = "SELECT error_code FROM punctual.scheduled_job_runs WHERE job_name = 'far'";
    world.until_shown("ada", said, "target_rejected").await;
    assert_eq!(world.done("ada", "SELECT count(*) FROM jobs.ticks"), "0", "the table is there");
}
