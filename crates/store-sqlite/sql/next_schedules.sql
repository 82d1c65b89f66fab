-- The schedules that are due next; no more are looked at than a list may.
SELECT r.* FROM (
  SELECT schedule_id, next_run_at FROM punctual_schedule_state
  WHERE enabled = 1 AND next_run_at IS NOT NULL ORDER BY next_run_at, schedule_id LIMIT ?1
) AS s
CROSS JOIN punctual_schedule_rows AS r ON r.schedule_id = s.schedule_id
WHERE r.deleted_at IS NULL AND (?2 IS NULL OR r.owner = ?2)
ORDER BY s.next_run_at, s.schedule_id
LIMIT ?3
