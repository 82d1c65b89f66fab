-- Closed jobs that are old enough, oldest first. A chain is forgotten from its end, so that what is alive keeps its
-- whole past: a job goes only when its retry, if it ever had one, is gone.
SELECT r.job_id FROM punctual_runs AS r JOIN punctual_jobs AS j ON j.id = r.job_id
WHERE r.finished_at < ?1 AND j.created_at < ?1
  AND NOT EXISTS (SELECT 1 FROM punctual_retries AS t JOIN punctual_jobs AS n ON n.id = t.job_id
                  WHERE t.retry_of = r.job_id)
ORDER BY r.job_id
LIMIT ?2
