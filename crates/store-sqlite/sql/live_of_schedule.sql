-- The jobs of a schedule that are alive, and which of them run. Those of a backfill, and their retries, are none of its
-- present work: they neither keep a slot from firing nor are they replaced by one.
SELECT v.job_id, g.job_id IS NOT NULL FROM punctual_schedule_live AS v
LEFT JOIN punctual_running AS g ON g.job_id = v.job_id
JOIN punctual_jobs AS j ON j.id = v.job_id
JOIN punctual_jobs AS root ON root.id = coalesce(j.root_job_id, j.id)
WHERE v.schedule_id = ?1 AND root.trigger <> 'backfill'
