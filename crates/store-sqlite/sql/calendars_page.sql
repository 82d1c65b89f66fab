-- Calendars in order of name.
SELECT name, description, rules, version, created_at, updated_at FROM punctual_calendars
WHERE name > ?1 ORDER BY name LIMIT ?2
