-- How long until anything is due, in microseconds, one look at the head of each index; and the cap on fires, if there is
-- one.
--
-- Differs from SQLite: a duration from the database's own now, so that no other clock matters.
SELECT (extract(epoch FROM min(due) - coalesce($1, now())) * 1000000)::bigint,
       (SELECT state::text FROM punctual_internal.fire_cap WHERE id = 1), coalesce($1, now())
FROM (
  (SELECT next_run_at AS due FROM punctual_internal.schedule_state
   WHERE enabled AND next_run_at IS NOT NULL ORDER BY next_run_at LIMIT 1)
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
