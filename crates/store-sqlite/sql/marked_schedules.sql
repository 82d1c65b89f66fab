-- The schedules of a job type that are marked as having no executor.
SELECT t.schedule_id FROM punctual_schedule_state AS t JOIN punctual_schedules AS s ON s.id = t.schedule_id
WHERE t.no_executor_since IS NOT NULL AND s.job_type = ?1 AND s.deleted_at IS NULL
ORDER BY t.schedule_id
LIMIT ?2
