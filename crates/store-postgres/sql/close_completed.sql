-- Closes runs that completed, in one statement, where no more follows from their ends than that their schedules' results
-- are written down: no serial key to be freed, no flow to be told. The answer is how many were closed, whether
-- `close_alike` would have done, and, unless all were closed, which. What is missing must be judged by itself, or has lost
-- its lease: if nobody is going to ($9), nothing is closed unless all are held and of that kind. When there is nothing to
-- tell of the runs but that they completed ($10), the lists are not even looked at. Who waits for a place that a limit kept
-- is told.
--
-- Differs from SQLite, where a second statement costs no round trip. The fence as in `take_running`; the results as in
-- `record_results`, of a batch in which all is well. Whether there is a step of a flow among the jobs is asked once, of all
-- ids from the first to the last ($11, $12), and of each only if there may be; OFFSET keeps that a look-up by its id.
WITH steps AS MATERIALIZED (
  SELECT coalesce((SELECT job_id <= $12 FROM punctual_internal.flow_jobs WHERE job_id >= $11 ORDER BY job_id LIMIT 1),
                  false) AS found
), held AS MATERIALIZED (
  SELECT count(*) = cardinality($2::uuid[]) AS whole FROM punctual_internal.running AS g
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE AND serial_key IS NULL
    AND (NOT (SELECT found FROM steps)
      OR NOT EXISTS (SELECT 1 FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id OFFSET 0))
), taken AS (
  DELETE FROM punctual_internal.running AS g
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE AND serial_key IS NULL
    AND (NOT (SELECT found FROM steps)
      OR NOT EXISTS (SELECT 1 FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id OFFSET 0))
    AND (NOT $9::boolean OR (SELECT whole FROM held))
  RETURNING job_id, node_id, started_at, limited, schedule_id
), closed AS (
  INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome, exit_code, output,
                                      log_ref, usage)
  SELECT job_id, node_id, started_at, coalesce($1, now()), true, 'completed', NULL, NULL, NULL, NULL
  FROM taken WHERE $10::boolean
  UNION ALL
  SELECT t.job_id, t.node_id, t.started_at, coalesce($1, now()), true, 'completed', e.exit_code, e.output::json,
         e.log_ref, e.usage::json
  FROM taken AS t
  JOIN unnest($2::uuid[], $5::integer[], $6::text[], $7::text[], $8::text[])
    AS e (job_id, exit_code, output, log_ref, usage) ON e.job_id = t.job_id
  WHERE NOT $10
), scheduled AS MATERIALIZED (
  SELECT schedule_id, job_id FROM taken WHERE schedule_id IS NOT NULL
), dead AS (
  DELETE FROM punctual_internal.schedule_live AS v USING scheduled AS s
  WHERE v.schedule_id = s.schedule_id AND v.job_id = s.job_id
), recorded AS (
  INSERT INTO punctual_internal.schedule_results AS r (schedule_id, last_run_at, last_outcome, last_success_at,
                                                       consecutive_failures)
  SELECT DISTINCT ON (schedule_id) schedule_id, coalesce($1, now()), 'completed', coalesce($1, now()), 0
  FROM scheduled ORDER BY schedule_id
  ON CONFLICT (schedule_id) DO UPDATE SET
    last_run_at = excluded.last_run_at,
    last_outcome = excluded.last_outcome,
    last_success_at = excluded.last_success_at,
    consecutive_failures = 0,
    recovered_from = r.failing_since,
    failing_since = NULL
  RETURNING schedule_id, last_run_at, recovered_from
), told AS (
  INSERT INTO punctual_internal.outbox (id, created_at, kind, job_id, schedule_id, payload)
  SELECT punctual_internal.new_id(r.last_run_at), r.last_run_at, 'recovered', last.job_id, r.schedule_id, json_build_object(
    'failing_since', to_char(r.recovered_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
  FROM recorded AS r
  CROSS JOIN LATERAL (
    SELECT s.job_id FROM scheduled AS s WHERE s.schedule_id = r.schedule_id
    ORDER BY array_position($2, s.job_id) DESC LIMIT 1
  ) AS last
  WHERE r.recovered_from IS NOT NULL
)
SELECT count(*),
  NOT (SELECT found FROM steps) AND NOT EXISTS (SELECT 1 FROM scheduled) AND NOT coalesce(bool_or(limited), false),
  (SELECT array_agg(job_id) FROM taken WHERE (SELECT count(*) FROM taken) < cardinality($2)), CASE
  -- A null would not keep the rest from being carried out.
  WHEN coalesce(bool_or(limited), false)
    AND pg_sequence_last_value('punctual_internal.waits') > pg_sequence_last_value('punctual_internal.told')
    AND setval('punctual_internal.told', pg_sequence_last_value('punctual_internal.waits')) > 0
  THEN pg_notify('punctual_wake', 'work')
END
FROM taken
