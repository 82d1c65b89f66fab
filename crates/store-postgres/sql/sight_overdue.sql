-- Schedules that were due before an instant and are not decided on, the longest due first.
SELECT s.id, s.name, s.labels::text, s.queue, NULL::text, NULL::uuid, NULL::timestamptz, t.next_run_at,
  NULL::timestamptz
FROM (
  SELECT schedule_id, next_run_at FROM punctual_internal.schedule_state
  WHERE enabled AND next_run_at IS NOT NULL AND next_run_at < $1
  ORDER BY next_run_at, schedule_id LIMIT $2
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
ORDER BY t.next_run_at, t.schedule_id
