-- The names of some schedules, whether they were deleted or not.
SELECT id, name FROM punctual_internal.schedules WHERE id = ANY ($1)
