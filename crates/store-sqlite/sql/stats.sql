-- The figures of the hot tables and of the schedules, each counted up to a bound.
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM punctual_delayed WHERE run_at IS NULL LIMIT ?1)),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_delayed WHERE run_at IS NOT NULL LIMIT ?1)),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_queue LIMIT ?1)),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_running LIMIT ?1)),
  (SELECT count(*) FROM punctual_leases),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_outbox WHERE delivered_at IS NULL LIMIT ?1)),
  count(*),
  coalesce(sum(t.enabled = 0), 0),
  coalesce(sum(coalesce(r.consecutive_failures, 0) > 0), 0),
  coalesce(sum(t.problem IS NOT NULL), 0)
FROM (SELECT id FROM punctual_schedules WHERE deleted_at IS NULL AND name > '' LIMIT ?1) AS s
CROSS JOIN punctual_schedule_state AS t ON t.schedule_id = s.id
LEFT JOIN punctual_schedule_results AS r ON r.schedule_id = s.id
