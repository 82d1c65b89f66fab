-- Closes runs that completed, in one statement, where nothing else follows from their ends: no serial key to be freed,
-- no schedule and no flow to be told. The answer is how many were closed and, unless that is all of them, which. What is missing
-- must be judged by itself, or has lost its lease: if nobody is going to ($9), nothing is closed unless all are held
-- and of that kind. When there is nothing to tell of the runs but that they completed ($10), the lists are not even
-- looked at. Who waits for a place that a limit kept is told.
--
-- Differs from SQLite, where a second statement costs no round trip. The fence as in `take_running`.
WITH held AS MATERIALIZED (
  SELECT count(*) = cardinality($2::uuid[]) AS whole FROM punctual_internal.running AS g
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE AND serial_key IS NULL AND schedule_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id)
), taken AS (
  DELETE FROM punctual_internal.running AS g
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE AND serial_key IS NULL AND schedule_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id)
    AND (NOT $9::boolean OR (SELECT whole FROM held))
  RETURNING job_id, node_id, started_at, limited
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
)
SELECT count(*), (SELECT array_agg(job_id) FROM taken WHERE (SELECT count(*) FROM taken) < cardinality($2)), CASE
  -- A null would not keep the rest from being carried out.
  WHEN coalesce(bool_or(limited), false)
    AND pg_sequence_last_value('punctual_internal.waits') > pg_sequence_last_value('punctual_internal.told')
    AND setval('punctual_internal.told', pg_sequence_last_value('punctual_internal.waits')) > 0
  THEN pg_notify('punctual_wake', '')
END
FROM taken
