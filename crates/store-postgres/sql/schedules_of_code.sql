-- The schedules that were declared in code by one owner.
FROM punctual_internal.schedules AS s
JOIN punctual_internal.schedule_state AS t ON t.schedule_id = s.id
LEFT JOIN punctual_internal.schedule_results AS r ON r.schedule_id = s.id
WHERE s.source = 'code' AND s.owner IS NOT DISTINCT FROM $1 AND s.deleted_at IS NULL
ORDER BY s.name
