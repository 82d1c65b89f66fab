-- One page of the schedules that could have a plan, in order of id, for the reconciler.
SELECT * FROM punctual_schedule_rows
WHERE schedule_id > ?1 AND enabled = 1 AND exhausted_at IS NULL AND fired_from = 'store'
ORDER BY schedule_id
LIMIT ?2
