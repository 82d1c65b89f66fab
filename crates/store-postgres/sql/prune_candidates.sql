-- The next runs in order of id, and whether each may be forgotten: it ended before its horizon, it is not among the
-- latest of its schedule, and its retry, if it ever had one, is gone. A chain is forgotten from its end, so that what is
-- alive keeps its whole past.
--
-- Differs from SQLite: the page is cut before anything else is looked up, and its bounds keep other partitions out.
SELECT r.job_id, coalesce(
  r.finished_at < CASE r.outcome WHEN 'failed' THEN $2::timestamptz ELSE $1::timestamptz END
  AND j.created_at < greatest($1, $2)
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.retries AS t JOIN punctual_internal.jobs AS n ON n.id = t.job_id
                  WHERE t.retry_of = r.job_id)
  AND ($3::bigint = 0 OR j.schedule_id IS NULL
       OR r.job_id < (SELECT n.id FROM punctual_internal.jobs AS n WHERE n.schedule_id = j.schedule_id
                      ORDER BY n.id DESC LIMIT 1 OFFSET greatest($3 - 1, 0))), false)
FROM (
  SELECT job_id, finished_at, outcome FROM punctual_internal.runs
  WHERE job_id > $4 AND job_id < $5 ORDER BY job_id LIMIT $6
) AS r
LEFT JOIN LATERAL (
  SELECT created_at, schedule_id FROM punctual_internal.jobs WHERE id = r.job_id OFFSET 0
) AS j ON true
ORDER BY r.job_id
