-- How the work for the slots of a time ended: the last job of each chain, however it was tried again.
WITH RECURSIVE chain (slot_at, job_id) AS (
  SELECT * FROM (
    SELECT slot_at, job_id FROM punctual_slots
    WHERE schedule_id = ?1 AND slot_at < ?2 AND slot_at >= ?3 ORDER BY slot_at DESC LIMIT ?4
  )
  WHERE job_id IS NOT NULL
  UNION ALL
  SELECT c.slot_at, r.job_id FROM chain AS c CROSS JOIN punctual_retries AS r ON r.retry_of = c.job_id
)
SELECT c.slot_at, u.outcome FROM chain AS c CROSS JOIN punctual_runs AS u ON u.job_id = c.job_id
WHERE u.final = 1 AND NOT EXISTS (SELECT 1 FROM punctual_retries AS r WHERE r.retry_of = c.job_id)
