-- The names of some schedules, whether they were deleted or not.
SELECT id, name FROM punctual_schedules WHERE id IN (SELECT unhex(value) FROM json_each(?1))
