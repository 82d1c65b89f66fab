-- The schedules of which SQL has asked something: a partial index that is empty in normal running. SQLite has none.
FROM (
  SELECT t.* FROM punctual_internal.schedule_state AS t JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE t.asked_since IS NOT NULL
  ORDER BY t.asked_since, t.schedule_id
  LIMIT $1
  -- Both, because carrying out may write both, and whoever asks for more right now has the second and waits for the
  -- first.
  FOR UPDATE OF t SKIP LOCKED FOR NO KEY UPDATE OF s SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = t.schedule_id OFFSET 0) AS r
  ON true
