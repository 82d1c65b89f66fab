-- Queues in order of name; the figures of each are asked for one by one.
SELECT name, paused, created_at FROM punctual_queues WHERE name > ?1 ORDER BY name LIMIT ?2
