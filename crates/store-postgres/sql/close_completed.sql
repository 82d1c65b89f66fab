-- Closes runs that completed, in one statement, if the lease's holder has them all and nothing else follows from their
-- ends: no serial key to be freed, no schedule to be told. Else it does nothing, and the ends are judged one by one. The
-- answer is one list of the jobs that were closed; one that is missing has lost its lease meanwhile.
--
-- Differs from SQLite, where a second statement costs no round trip. The fence as in `take_running`.
WITH ended AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $5::integer[], $6::text[], $7::text[], $8::text[])
    AS w (job_id, exit_code, output, log_ref, usage)
), held AS MATERIALIZED (
  SELECT count(*) = cardinality($2::uuid[]) AS whole FROM punctual_internal.running
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE AND serial_key IS NULL AND schedule_id IS NULL
), taken AS (
  DELETE FROM punctual_internal.running
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE AND (SELECT whole FROM held)
  RETURNING job_id, node_id, started_at
), closed AS (
  INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome, exit_code, output,
                                      log_ref, usage)
  SELECT t.job_id, t.node_id, t.started_at, coalesce($1, now()), true, 'completed', e.exit_code, e.output::json,
         e.log_ref, e.usage::json
  FROM taken AS t JOIN ended AS e ON e.job_id = t.job_id
  RETURNING job_id
)
SELECT array_agg(job_id) FROM closed
