-- Jobs of schedules, and jobs whose time is ahead, which go into `delayed`. Nodes are told in the same statement if one
-- has begun to wait since the last time (`waits`), or if a delayed job comes before all others.
, live AS (
  INSERT INTO punctual_internal.schedule_live (schedule_id, job_id)
  SELECT schedule_id, id FROM wanted WHERE schedule_id IS NOT NULL
), later AS (
  INSERT INTO punctual_internal.delayed (job_id, run_at)
  SELECT id, run_at FROM wanted WHERE run_at > made_at AND $2
)
SELECT at, (
  SELECT CASE WHEN setval('punctual_internal.told', last_value) > 0 THEN pg_notify('punctual_wake', '') END
  FROM punctual_internal.waits WHERE $2 AND last_value > (SELECT last_value FROM punctual_internal.told)
), (
  SELECT pg_notify('punctual_wake', '') FROM wanted WHERE run_at > made_at AND $2
  HAVING min(run_at) < (SELECT coalesce(min(run_at), 'infinity') FROM punctual_internal.delayed
                        WHERE run_at IS NOT NULL)
)
FROM clock WHERE NOT EXISTS (SELECT 1 FROM kinds WHERE lane_id IS NULL)
