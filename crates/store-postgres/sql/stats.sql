-- The figures of the hot tables and of the schedules, each counted up to a bound. It is written out, one after
-- `COUNT_MAX`: of a parameter the planner believes that it is a tenth of the table.
SELECT
  (SELECT count(*) FROM (SELECT 1 FROM punctual_internal.delayed WHERE run_at IS NULL ORDER BY job_id LIMIT 10001) AS c),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_internal.delayed WHERE run_at IS NOT NULL ORDER BY run_at, job_id LIMIT 10001) AS c),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_internal.queue ORDER BY job_id LIMIT 10001) AS c),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_internal.running ORDER BY job_id LIMIT 10001) AS c),
  (SELECT count(*) FROM punctual_internal.leases),
  (SELECT count(*) FROM (SELECT 1 FROM punctual_internal.outbox WHERE delivered_at IS NULL ORDER BY id LIMIT 10001) AS c),
  count(*),
  count(*) FILTER (WHERE NOT t.enabled),
  count(*) FILTER (WHERE r.consecutive_failures > 0),
  count(*) FILTER (WHERE t.problem IS NOT NULL)
FROM (SELECT id FROM punctual_internal.schedules WHERE deleted_at IS NULL ORDER BY name LIMIT 10001) AS s
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedule_state WHERE schedule_id = s.id OFFSET 0) AS t
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = s.id OFFSET 0) AS r ON true
