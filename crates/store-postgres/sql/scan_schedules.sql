-- The names that a list of all schedules looks at.
SELECT id, name FROM punctual_internal.schedules
WHERE deleted_at IS NULL AND name > $1 AND $4::text IS NULL ORDER BY name LIMIT $2 OFFSET $3
