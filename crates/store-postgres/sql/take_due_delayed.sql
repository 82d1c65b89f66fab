-- Takes delayed jobs whose time has come, earliest first.
--
-- Differs from SQLite: the rows are locked as they are taken, and those that another node promotes are passed over.
WITH due AS MATERIALIZED (
  SELECT job_id, run_at FROM punctual_internal.delayed
  WHERE run_at IS NOT NULL AND run_at <= $1
  ORDER BY run_at, job_id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
), taken AS (
  DELETE FROM punctual_internal.delayed WHERE job_id = ANY (ARRAY(SELECT job_id FROM due)) RETURNING job_id, run_at
)
SELECT taken.job_id, j.lane_id, j.priority, j.created_at, j.serial_key, j.schedule_id, j.tags::text
FROM taken
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = taken.job_id OFFSET 0) AS j
ORDER BY taken.run_at, taken.job_id
