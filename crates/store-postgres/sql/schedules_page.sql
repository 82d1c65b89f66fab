-- One page of schedules in order of name. Each page is looked up row by row, whatever the planner thinks of its size.
FROM (
  SELECT * FROM punctual_internal.schedules WHERE name > $1 AND deleted_at IS NULL ORDER BY name LIMIT $2
) AS s
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedule_state WHERE schedule_id = s.id OFFSET 0) AS t
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = s.id OFFSET 0) AS r ON true
ORDER BY s.name
