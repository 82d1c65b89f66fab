-- Templates in order of name.
SELECT id, name, job, parameters, created_at FROM punctual_templates WHERE name > ?1 ORDER BY name LIMIT ?2
