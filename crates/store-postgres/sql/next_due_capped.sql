-- How long until anything is due that no cap on fires holds back, in microseconds; asked for when one does.
SELECT (extract(epoch FROM min(due) - coalesce($1, now())) * 1000000)::bigint FROM (
  (SELECT min(t.next_run_at) AS due FROM punctual_internal.schedules AS s
   JOIN punctual_internal.schedule_state AS t ON t.schedule_id = s.id
   WHERE s.burst_allowed AND s.deleted_at IS NULL AND t.enabled AND t.next_run_at IS NOT NULL)
  UNION ALL
  (SELECT coalesce($1, now()) FROM punctual_internal.schedule_state
   WHERE enabled AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL
     AND fired_from = 'store' LIMIT 1)
  UNION ALL
  (SELECT paused_until FROM punctual_internal.schedule_state
   WHERE paused_until IS NOT NULL ORDER BY paused_until LIMIT 1)
  UNION ALL
  (SELECT coalesce($1, now()) FROM punctual_internal.schedule_state WHERE asked_since IS NOT NULL LIMIT 1)
  UNION ALL
  (SELECT run_at FROM punctual_internal.delayed WHERE run_at IS NOT NULL ORDER BY run_at LIMIT 1)
) AS dues
WHERE isfinite(due)
