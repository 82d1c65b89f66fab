-- The jobs of some schedules that are alive, and which of them run.
SELECT v.schedule_id, v.job_id, g.job_id IS NOT NULL
FROM punctual_internal.schedule_live AS v
LEFT JOIN punctual_internal.running AS g ON g.job_id = v.job_id
WHERE v.schedule_id = ANY ($1)
ORDER BY v.schedule_id, v.job_id
