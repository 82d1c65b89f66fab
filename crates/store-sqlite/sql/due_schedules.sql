-- The schedules that are due, earliest first: a range scan of the due index, whatever the number of schedules.
SELECT * FROM punctual_schedule_rows
WHERE enabled = 1 AND next_run_at IS NOT NULL AND next_run_at <= ?1
ORDER BY next_run_at, schedule_id
LIMIT ?2
