-- The flows of one owner in order of name, after a name.
SELECT name, version, definition, owner, created_at, updated_at FROM punctual_flows
WHERE owner = ?1 AND name > ?2 ORDER BY name LIMIT ?3
