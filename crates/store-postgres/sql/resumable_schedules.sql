-- The schedules whose pause is over, the earliest first: a partial index that holds only what is paused until a time.
--
-- Differs from SQLite as `due_schedules` does, and looks up how earlier runs ended: those failures are forgiven.
FROM (
  SELECT * FROM punctual_internal.schedule_state
  WHERE paused_until IS NOT NULL AND paused_until <= coalesce($1, now()) AND asked_since IS NULL
  ORDER BY paused_until, schedule_id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = t.schedule_id OFFSET 0) AS r
  ON true
