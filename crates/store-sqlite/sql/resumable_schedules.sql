-- The schedules whose pause is over, the earliest first: a partial index that holds only what is paused until a time.
SELECT * FROM punctual_schedule_rows
WHERE paused_until IS NOT NULL AND paused_until <= ?1
ORDER BY paused_until, schedule_id
LIMIT ?2
