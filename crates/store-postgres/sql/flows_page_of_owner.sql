-- The flows of one owner in order of name, after a name.
SELECT name, version, definition::text, owner, created_at, updated_at FROM punctual_internal.flows
WHERE owner = $1 AND name > $2 ORDER BY name LIMIT $3
