-- Adds chunks and progress to runs whose lease holds, and says which those are. They are locked against their own end,
-- so that nothing is added to a run that was closed meanwhile. A chunk that is there already was sent twice.
--
-- Differs from SQLite: one statement for a batch, and the lock, because there are other writers.
WITH told AS MATERIALIZED (
  SELECT * FROM unnest($4::uuid[], $5::bigint[], $6::text[], $7::integer[], $8::text[])
    AS w (job_id, sequence, lines, percent, note)
), held AS MATERIALIZED (
  SELECT job_id FROM punctual_internal.running
  WHERE job_id = ANY ($4) AND node_id = $2 AND (lease_id = $3) IS TRUE
  ORDER BY job_id
  FOR KEY SHARE
), added AS (
  INSERT INTO punctual_internal.run_logs (job_id, sequence, lines)
  SELECT job_id, sequence, lines::json FROM told JOIN held USING (job_id) WHERE sequence IS NOT NULL
  ON CONFLICT DO NOTHING
), reached AS (
  INSERT INTO punctual_internal.run_progress (job_id, told_at, percent, note)
  SELECT job_id, coalesce($1, now()), percent, note FROM told JOIN held USING (job_id) WHERE percent IS NOT NULL
  ON CONFLICT (job_id) DO UPDATE
  SET told_at = excluded.told_at, percent = excluded.percent, note = excluded.note
)
SELECT job_id FROM held
