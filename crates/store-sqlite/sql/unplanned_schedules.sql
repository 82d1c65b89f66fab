-- The schedules that should have a plan and have none (E01): a partial index that is empty in normal running.
SELECT * FROM punctual_schedule_rows
WHERE enabled = 1 AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL AND fired_from = 'store'
ORDER BY schedule_id
LIMIT ?1
