-- The runs that ended within a stretch of time: when, how, how long each waited since it could begin, and how long it
-- took. They are ranked by the caller, unlike in PostgreSQL: SQLite has no percentiles.
SELECT r.finished_at, r.outcome, r.started_at - max(j.created_at, coalesce(j.run_at, j.created_at)),
  r.finished_at - r.started_at
FROM punctual_runs AS r CROSS JOIN punctual_jobs AS j ON j.id = r.job_id
WHERE r.finished_at >= ?1 AND r.finished_at < ?2
ORDER BY r.finished_at
