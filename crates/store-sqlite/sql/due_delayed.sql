-- Delayed jobs whose time has come, earliest first.
SELECT d.job_id, j.lane_id, j.priority, j.created_at, j.serial_key, j.schedule_id
FROM punctual_delayed AS d JOIN punctual_jobs AS j ON j.id = d.job_id
WHERE d.run_at IS NOT NULL AND d.run_at <= ?1
ORDER BY d.run_at, d.job_id
LIMIT ?2
