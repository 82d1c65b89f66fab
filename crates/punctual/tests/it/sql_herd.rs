//! Five hundred SQL jobs that are due at the same time, and schedulers that are killed.

use crate::process::Ear;
use crate::sql_world::SqlWorld;

const JOBS: u32 = 500;

/// Counts its calls; every tenth job says that it failed.
const COUNTING: &str = "
    CREATE TABLE jobs.calls (n int NOT NULL);
    CREATE FUNCTION jobs.count(input jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = jobs AS $$
    BEGIN
      INSERT INTO calls VALUES ((input ->> 'n')::int);
      RETURN jsonb_build_object('success', (input ->> 'n')::int % 10 <> 0, 'message', 'counted');
    END $$;";

const REGISTER: &str = "
    INSERT INTO punctual.scheduled_jobs (name, function_name, schedule, max_attempts, input)
    SELECT 'job ' || n, 'jobs.count', '*/10 * * * * *', 1, jsonb_build_object('n', n) FROM generate_series(1, 500) AS n";

/// For each job: slots that fired, what they are in the ledger, attempts, calls. What differs is shown.
const ODD: &str = "
    SELECT j.name, fired.count, fired.apart, roots.count, roots.apart, attempts.count, attempts.lost, calls.count
    FROM punctual.scheduled_jobs AS j
    CROSS JOIN LATERAL (SELECT count(*), count(DISTINCT slot_at) AS apart FROM punctual.slots AS s
                        WHERE s.job_id = j.id AND decision = 'fired') AS fired
    CROSS JOIN LATERAL (SELECT count(*), count(DISTINCT scheduled_for) AS apart FROM punctual.scheduled_job_runs AS r
                        WHERE r.job_id = j.id AND r.attempt = 1) AS roots
    CROSS JOIN LATERAL (SELECT count(*), count(*) FILTER (WHERE error_code = 'node_lost') AS lost
                        FROM punctual.scheduled_job_runs AS r WHERE r.job_id = j.id) AS attempts
    CROSS JOIN LATERAL (SELECT count(*) FROM jobs.calls AS c WHERE 'job ' || c.n = j.name) AS calls
    WHERE fired.count = 0 OR fired.apart <> fired.count OR roots.count <> fired.count OR roots.apart <> fired.count
       OR attempts.count - attempts.lost <> fired.count
       OR calls.count NOT BETWEEN fired.count AND attempts.count";

/// What the view says, beside a count over the tables themselves.
const FIGURES: &str = "
    WITH direct AS (
      SELECT s.name, count(*) AS total, round(100.0 * count(*) FILTER (WHERE r.outcome = 'completed') / count(*), 2) AS rate,
        round(avg(extract(epoch FROM r.finished_at - r.started_at) * 1000)) AS avg_ms,
        max(floor(extract(epoch FROM r.finished_at - r.started_at) * 1000)) AS max_ms
      FROM punctual_internal.runs AS r JOIN punctual_internal.jobs AS j ON j.id = r.job_id
      JOIN punctual_internal.schedules AS s ON s.id = j.schedule_id
      WHERE r.outcome IN ('completed', 'failed') GROUP BY s.name)
    SELECT count(*)::text FROM direct FULL JOIN punctual.scheduled_job_status AS v USING (name)
    WHERE v.total_runs IS DISTINCT FROM total OR v.success_rate_percent IS DISTINCT FROM rate
      OR abs(v.avg_duration_ms - avg_ms) > 1 OR abs(v.max_duration_ms - max_ms) > 1 OR v.max_duration_ms IS NULL
      OR v.running <> 0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b06_five_hundred_jobs_at_once_run_once_each_while_schedulers_are_killed() {
    let world = SqlWorld::new().await;
    let ear = Ear::new();
    let (mut first, _second) = (world.start_worker(&ear), world.start_worker(&ear));
    world.done("ada", COUNTING);
    world.done("ada", REGISTER);
    // One is killed in the middle of the herd, and another one comes in its place.
    world.until_answer("ada", "SELECT count(*) FROM jobs.calls", |calls| calls.parse::<u32>().unwrap() > 50).await;
    first.kill();
    let _third = world.start_worker(&ear);
    let fired = "SELECT count(DISTINCT job_id) FROM punctual.slots WHERE decision = 'fired'";
    world.until_shown("ada", fired, &JOBS.to_string()).await;
    world.done("ada", "UPDATE punctual.scheduled_jobs SET enabled = false");
    world.until_open(0).await;
    assert_eq!(world.done("ada", ODD), "", "each slot once");
    let differ = world.texts("", FIGURES).await;
    assert_eq!(differ, ["0"], "the view agrees with the tables");
    let wrong = "SELECT count(*) FROM punctual.scheduled_job_status
                 WHERE split_part(name, ' ', 2)::int % 10 = 0 AND success_rate_percent <> 0";
    assert_eq!(world.done("ada", wrong), "0", "what always says that it failed never succeeded");
}
