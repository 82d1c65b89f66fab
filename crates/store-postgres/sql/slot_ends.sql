-- How the work for the slots of a time ended: the last job of each chain, however it was tried again. Each run is looked
-- up by itself: the time in the job's id leads to one partition.
WITH RECURSIVE chain (slot_at, job_id) AS (
  SELECT * FROM (
    SELECT slot_at, job_id FROM punctual_internal.slots
    WHERE schedule_id = $1 AND slot_at < $2 AND slot_at >= $3 ORDER BY slot_at DESC LIMIT $4
  ) AS s
  WHERE job_id IS NOT NULL
  UNION ALL
  SELECT c.slot_at, r.job_id FROM chain AS c
  CROSS JOIN LATERAL (SELECT job_id FROM punctual_internal.retries WHERE retry_of = c.job_id OFFSET 0) AS r
)
SELECT c.slot_at, u.outcome FROM chain AS c
CROSS JOIN LATERAL (SELECT outcome, final FROM punctual_internal.runs WHERE job_id = c.job_id OFFSET 0) AS u
WHERE u.final AND NOT EXISTS (
  SELECT 1 FROM punctual_internal.retries AS r WHERE r.retry_of = c.job_id OFFSET 0)
