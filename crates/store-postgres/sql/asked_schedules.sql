-- The schedules of which SQL has asked something: a partial index that is empty in normal running. SQLite has none.
FROM (
  SELECT * FROM punctual_internal.schedule_state
  WHERE asked_since IS NOT NULL
  ORDER BY asked_since, schedule_id
  LIMIT $1
  FOR UPDATE SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = t.schedule_id OFFSET 0) AS r
  ON true
