-- Flows in order of name, after a name.
SELECT name, version, definition, owner, created_at, updated_at FROM punctual_flows WHERE name > ?1 ORDER BY name LIMIT ?2
