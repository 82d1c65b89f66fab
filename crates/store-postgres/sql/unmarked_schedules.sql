-- The schedules of job types that could fire and are not marked as having no executor.
--
-- Differs from SQLite: all types at once, and nothing is locked; each is locked and looked at again before it is changed.
SELECT t.schedule_id FROM punctual_internal.schedules AS s JOIN punctual_internal.schedule_state AS t ON t.schedule_id = s.id
WHERE s.job_type = ANY ($1) AND s.deleted_at IS NULL AND t.enabled AND t.next_slot_at IS NOT NULL AND t.problem IS NULL
  AND t.no_executor_since IS NULL
ORDER BY s.id
LIMIT $2
