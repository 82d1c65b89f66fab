-- A schedule as it was in an earlier version, standing where it stands now. What a version does not keep is taken from
-- the present row.
FROM punctual_internal.schedules AS c
JOIN punctual_internal.schedule_versions AS v ON v.schedule_id = c.id AND v.version = $2
CROSS JOIN LATERAL json_populate_record(c, v.definition) AS s
JOIN punctual_internal.schedule_state AS t ON t.schedule_id = c.id
LEFT JOIN punctual_internal.schedule_results AS r ON r.schedule_id = c.id
WHERE c.id = $1
