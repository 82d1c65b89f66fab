-- The slots of a range for which a backfill has nothing to do: a job was made for them, and its chain of retries did not
-- end without success. One that is alive may still succeed, and one that is forgotten may have.
WITH RECURSIVE candidate (slot_at, job_id) AS (
  SELECT slot_at, job_id FROM punctual_slots
  WHERE schedule_id = ?1 AND slot_at BETWEEN ?2 AND ?3 AND job_id IS NOT NULL
  UNION ALL
  SELECT slot_at, job_id FROM punctual_backfill_slots WHERE schedule_id = ?1 AND slot_at BETWEEN ?2 AND ?3
), chain (first_job_id, job_id) AS (
  SELECT job_id, job_id FROM candidate
  UNION ALL
  SELECT c.first_job_id, r.job_id FROM chain AS c JOIN punctual_retries AS r ON r.retry_of = c.job_id
), in_vain (job_id) AS (
  SELECT c.first_job_id FROM chain AS c JOIN punctual_runs AS u ON u.job_id = c.job_id
  WHERE u.final = 1 AND u.outcome <> 'completed'
    AND NOT EXISTS (SELECT 1 FROM punctual_retries AS r WHERE r.retry_of = c.job_id)
)
SELECT DISTINCT slot_at FROM candidate WHERE job_id NOT IN (SELECT job_id FROM in_vain)
