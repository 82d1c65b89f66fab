-- Closes jobs: each one's run, once and for all, and off the list of what is alive of its schedule.
WITH ended AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[], $6::text[], $7::text[], $8::text[],
                       $9::integer[], $10::text[], $11::text[], $12::boolean[], $13::text[])
    AS w (job_id, schedule_id, node_id, started_at, outcome, error_code, error, exit_code, output, log_ref, final,
          usage)
), dead AS (
  DELETE FROM punctual_internal.schedule_live AS v USING ended
  WHERE v.schedule_id = ended.schedule_id AND v.job_id = ended.job_id
)
INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome, error_code, error,
                                    exit_code, output, log_ref, usage)
SELECT job_id, node_id, started_at, $1, final, outcome, error_code, error, exit_code, output::json, log_ref,
       usage::json
FROM ended
