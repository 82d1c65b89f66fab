-- Closed jobs that are old enough, oldest first. A chain is forgotten from its end, so that what is alive keeps its
-- whole past: a job goes only when its retry, if it ever had one, is gone.
--
-- Differs from SQLite: the bound on the id keeps the young partitions out.
SELECT r.job_id FROM punctual_internal.runs AS r
CROSS JOIN LATERAL (SELECT created_at FROM punctual_internal.jobs WHERE id = r.job_id OFFSET 0) AS j
WHERE r.job_id < $3 AND r.finished_at < $1 AND j.created_at < $1
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.retries AS t JOIN punctual_internal.jobs AS n ON n.id = t.job_id
                  WHERE t.retry_of = r.job_id)
ORDER BY r.job_id
LIMIT $2
