-- The earliest time at which anything is due that no cap on fires holds back; asked for when one does.
SELECT min(due) FROM (
  SELECT min(t.next_run_at) AS due FROM punctual_schedules AS s
  CROSS JOIN punctual_schedule_state AS t ON t.schedule_id = s.id
  WHERE s.burst_allowed = 1 AND s.deleted_at IS NULL AND t.enabled = 1 AND t.next_run_at IS NOT NULL
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
