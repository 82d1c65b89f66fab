//! The SQL surface against those who use it otherwise than it is meant.

use crate::harness::Own;
use crate::roles::Login;
use punctual_testkit::harness::block_on;

/// Types of a client's own, named like those that the functions use: whoever takes one of these for the real one runs
/// what the client likes, with rights that he has not.
const TRAPS: &str = "
    CREATE FUNCTION pg_temp.trap() RETURNS boolean LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$;
    CREATE DOMAIN pg_temp.uuid AS pg_catalog.uuid CHECK (pg_temp.trap());
    CREATE DOMAIN pg_temp.json AS pg_catalog.json CHECK (pg_temp.trap());
    CREATE DOMAIN pg_temp.jsonb AS pg_catalog.jsonb CHECK (pg_temp.trap());
    CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.trap());
    CREATE DOMAIN pg_temp.timestamptz AS pg_catalog.timestamptz CHECK (pg_temp.trap());
    CREATE DOMAIN pg_temp.record AS pg_catalog.text CHECK (pg_temp.trap());
    CREATE TEMP TABLE pg_roles (rolname name, oid oid);
    CREATE TEMP TABLE pg_timezone_names (name text);
    CREATE TEMP TABLE pg_namespace (nspname name, nspowner oid);";

/// Everything that a client can do.
const EVERYTHING: [&str; 14] = [
    "INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, timezone, labels)
     VALUES ('s', 'f', '@at 2999-01-01 00:00 UTC', 'Europe/Berlin', '{\"a\": \"b\"}')",
    "UPDATE punctual.scheduled_jobs SET schedule = '0 3 * * *', max_attempts = 4, timeout = '1 min', serial = true",
    "SELECT punctual.trigger_scheduled_job('s', '{\"n\": 1}')",
    "SELECT punctual.reschedule('s', now() + interval '1 hour')",
    "SELECT punctual.skip_next('s')",
    "SELECT punctual.pause_schedule('s', 'why', now() + interval '1 day')",
    "SELECT punctual.resume_schedule('s')",
    "SELECT punctual.add_job('t', '{\"n\": 1}', 'serial', now(), 3, 'key', 1, ARRAY['a'])",
    "SELECT punctual.add_job('t', job_key => 'key', job_key_mode => 'preserve_run_at')",
    "SELECT punctual.add_jobs(ARRAY[json_populate_record(NULL::punctual.job_spec, pg_catalog.json_build_object('identifier', 'u'))])",
    "SELECT punctual.cancel_job(id) FROM punctual.jobs_overview WHERE state = 'queued'",
    "SELECT punctual.retry_job(id) FROM punctual.jobs_overview WHERE job_type = 'task:u'",
    "SELECT count(*) FROM punctual.scheduled_job_runs, punctual.scheduled_job_status, punctual.slots",
    "DELETE FROM punctual.scheduled_jobs",
];

#[test]
fn b12_a_clients_own_types_are_never_taken_for_the_real_ones() {
    block_on(async {
        let own = Own::with(|options| options.clock = None).await;
        own.store.apply_roles().await.unwrap();
        let login = Login::of("punctual_client", &own.database).await;
        let client = login.connect().await;
        client.batch_execute(TRAPS).await.unwrap();
        let trapped = client.batch_execute("SELECT 'x'::text").await.unwrap_err();
        assert!(trapped.as_db_error().unwrap().message().contains("trapped"), "the traps work");
        for sql in EVERYTHING {
            client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {:?}", error.as_db_error()));
        }
        drop(client);
        login.drop_from(&own.database).await;
    });
}

/// No function that works with its owner's rights leaves it to the caller where names are looked for.
#[test]
fn b12_every_function_of_the_surface_has_a_fixed_search_path() {
    block_on(async {
        let own = Own::with(|_| {}).await;
        let open = "SELECT coalesce(string_agg(oid::regprocedure::text, ', '), '') FROM pg_proc
                    WHERE (pronamespace = 'punctual'::regnamespace
                           OR pronamespace = 'punctual_internal'::regnamespace AND (prosecdef OR proconfig IS NOT NULL))
                      AND (proconfig IS NULL OR NOT proconfig @> ARRAY['search_path=pg_catalog, pg_temp'])";
        let found: String = own.database.connect().await.query_one(open, &[]).await.unwrap().get(0);
        assert_eq!(found, "");
    });
}
