-- The schedules of a job type that could fire and are not marked as having no executor.
SELECT t.schedule_id FROM punctual_schedules AS s JOIN punctual_schedule_state AS t ON t.schedule_id = s.id
WHERE s.job_type = ?1 AND s.deleted_at IS NULL AND t.enabled = 1 AND t.next_slot_at IS NOT NULL AND t.problem IS NULL
  AND t.no_executor_since IS NULL
ORDER BY s.id
LIMIT ?2
