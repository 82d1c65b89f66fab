-- Templates in order of name.
SELECT id, name, job::text, parameters::text, created_at FROM punctual_internal.templates WHERE name > $1 ORDER BY name LIMIT $2
