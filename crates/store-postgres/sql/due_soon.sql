-- The schedules that are due up to an instant, soonest first, to be remembered.
--
-- Differs from `due_schedules`: nothing is locked, because nothing is decided.
FROM (
  SELECT * FROM punctual_internal.schedule_state
  WHERE enabled AND next_run_at IS NOT NULL AND next_run_at <= $1
  ORDER BY next_run_at, schedule_id
  LIMIT $2
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = t.schedule_id OFFSET 0) AS r
  ON true
ORDER BY t.next_run_at, t.schedule_id
