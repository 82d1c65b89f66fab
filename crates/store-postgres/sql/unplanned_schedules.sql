-- The schedules that should have a plan and have none (E01): a partial index that is empty in normal running.
--
-- Differs from SQLite as `due_schedules` does.
FROM (
  SELECT * FROM punctual_internal.schedule_state
  WHERE enabled AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL AND fired_from = 'store'
    AND asked_since IS NULL
  ORDER BY schedule_id
  LIMIT $1
  FOR UPDATE SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = t.schedule_id OFFSET 0) AS r
  ON true
