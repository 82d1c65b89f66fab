-- The last job of the chain that begins with a job: itself, or its latest retry.
WITH RECURSIVE chain (job_id, length) AS (
  SELECT ?1, 1
  UNION ALL
  SELECT r.job_id, c.length + 1 FROM chain AS c JOIN punctual_retries AS r ON r.retry_of = c.job_id
)
SELECT job_id FROM chain ORDER BY length DESC LIMIT 1
