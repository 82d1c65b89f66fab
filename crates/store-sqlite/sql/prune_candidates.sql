-- The next runs in order of id, and whether each may be forgotten: it ended before its horizon, it is not among the
-- latest of its schedule, and its retry, if it ever had one, is gone. A chain is forgotten from its end, so that what is
-- alive keeps its whole past.
SELECT r.job_id, coalesce(
  r.finished_at < iif(r.outcome = 'failed', ?2, ?1) AND j.created_at < max(?1, ?2)
  AND NOT EXISTS (SELECT 1 FROM punctual_retries AS t JOIN punctual_jobs AS n ON n.id = t.job_id
                  WHERE t.retry_of = r.job_id)
  AND (?3 = 0 OR j.schedule_id IS NULL
       OR j.id < (SELECT n.id FROM punctual_jobs AS n WHERE n.schedule_id = j.schedule_id
                  ORDER BY n.id DESC LIMIT 1 OFFSET ?3 - 1)), 0)
FROM punctual_runs AS r CROSS JOIN punctual_jobs AS j ON j.id = r.job_id
WHERE r.job_id > ?4 AND r.job_id < ?5
ORDER BY r.job_id
LIMIT ?6
