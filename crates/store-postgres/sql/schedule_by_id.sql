-- One schedule by its id.
FROM punctual_internal.schedule_state AS t
JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
LEFT JOIN punctual_internal.schedule_results AS r ON r.schedule_id = t.schedule_id
WHERE t.schedule_id = $1 AND s.deleted_at IS NULL
