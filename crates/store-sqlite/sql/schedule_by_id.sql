-- One schedule by its id.
SELECT * FROM punctual_schedule_rows WHERE schedule_id = ?1 AND deleted_at IS NULL
