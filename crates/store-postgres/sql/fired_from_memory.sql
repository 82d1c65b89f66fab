-- Those of some schedules that are fired from memory, are not paused, and have somebody who could run their jobs.
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (id, n)
CROSS JOIN LATERAL (
  SELECT * FROM punctual_internal.schedule_state
  WHERE schedule_id = w.id AND enabled AND fired_from = 'memory' AND no_executor_since IS NULL OFFSET 0
) AS t
CROSS JOIN LATERAL (
  SELECT * FROM punctual_internal.schedules WHERE id = w.id AND deleted_at IS NULL OFFSET 0
) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = w.id OFFSET 0) AS r ON true
ORDER BY w.n
