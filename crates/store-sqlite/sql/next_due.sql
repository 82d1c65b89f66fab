-- The earliest time at which anything is due, one look at the head of each index; and the cap on fires, if there is one.
SELECT min(due), (SELECT state FROM punctual_fire_cap WHERE id = 1) FROM (
  SELECT * FROM (SELECT next_run_at AS due FROM punctual_schedule_state
                 WHERE enabled = 1 AND next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1)
  UNION ALL
  SELECT * FROM (SELECT 0 AS due FROM punctual_schedule_state
                 WHERE enabled = 1 AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL
                   AND fired_from = 'store' LIMIT 1)
  UNION ALL
  SELECT * FROM (SELECT paused_until AS due FROM punctual_schedule_state
                 WHERE paused_until IS NOT NULL ORDER BY paused_until LIMIT 1)
  UNION ALL
  SELECT * FROM (SELECT run_at AS due FROM punctual_delayed WHERE run_at IS NOT NULL ORDER BY run_at LIMIT 1)
)
