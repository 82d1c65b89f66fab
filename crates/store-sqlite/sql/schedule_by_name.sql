-- One schedule by its name.
SELECT * FROM punctual_schedule_rows WHERE name = ?1 AND deleted_at IS NULL
