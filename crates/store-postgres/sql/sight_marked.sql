-- Schedules that no live node can run, and since when that is so.
SELECT s.id, s.name, s.labels::text, s.queue, NULL::text, NULL::uuid, NULL::timestamptz, t.no_executor_since,
  NULL::timestamptz
FROM punctual_internal.schedule_state AS t JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
WHERE t.no_executor_since IS NOT NULL AND t.no_executor_since < $1
LIMIT $2
