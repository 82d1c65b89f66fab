-- The jobs of a schedule that are alive, and which of them run.
SELECT v.job_id, g.job_id IS NOT NULL FROM punctual_schedule_live AS v
LEFT JOIN punctual_running AS g ON g.job_id = v.job_id
WHERE v.schedule_id = ?1
