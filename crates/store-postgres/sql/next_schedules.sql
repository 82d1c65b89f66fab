-- The schedules that are due next; no more are looked at than a list may.
FROM (
  SELECT schedule_id, next_run_at FROM punctual_internal.schedule_state
  WHERE enabled AND next_run_at IS NOT NULL ORDER BY next_run_at, schedule_id LIMIT $1
) AS n
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = n.schedule_id OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedule_state WHERE schedule_id = n.schedule_id OFFSET 0) AS t
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = n.schedule_id OFFSET 0) AS r ON true
WHERE s.deleted_at IS NULL AND ($2::text IS NULL OR s.owner = $2)
ORDER BY n.next_run_at, n.schedule_id
LIMIT $3
