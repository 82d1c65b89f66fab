-- The schedules of job types that are marked as having no executor.
--
-- Differs from SQLite: all types at once, and nothing is locked; each is locked and looked at again before it is changed.
SELECT t.schedule_id FROM punctual_internal.schedule_state AS t JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
WHERE t.no_executor_since IS NOT NULL AND s.job_type = ANY ($1) AND s.deleted_at IS NULL
ORDER BY t.schedule_id
LIMIT $2
