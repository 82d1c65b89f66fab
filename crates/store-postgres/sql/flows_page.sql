-- Flows in order of name, after a name.
SELECT name, version, definition::text, owner, created_at, updated_at FROM punctual_internal.flows
WHERE name > $1 ORDER BY name LIMIT $2
