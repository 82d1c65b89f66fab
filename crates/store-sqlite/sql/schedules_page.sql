-- One page of schedules in order of name.
SELECT * FROM punctual_schedule_rows WHERE name > ?1 AND deleted_at IS NULL ORDER BY name LIMIT ?2
