-- The names that a list of one owner's schedules looks at.
SELECT id, name FROM punctual_internal.schedules
WHERE deleted_at IS NULL AND owner = $4::text AND name > $1 ORDER BY name LIMIT $2 OFFSET $3
