-- The schedules that are due, earliest first: a range scan of the due index, whatever the number of schedules.
--
-- Differs from SQLite: the rows are locked, and those that another node is deciding are passed over. State comes from
-- the locked row; the definition comes from the statement's snapshot and may be older, which `set_plan` notices by the
-- version. How earlier runs ended is not looked up: nothing is decided by it. OFFSET 0 keeps the look-ups what they are, however many rows the planner expects.
FROM (
  SELECT * FROM punctual_internal.schedule_state
  WHERE enabled AND next_run_at IS NOT NULL AND next_run_at <= coalesce($1, now())
  ORDER BY next_run_at, schedule_id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
CROSS JOIN (
  SELECT NULL::timestamptz, NULL::text, NULL::timestamptz, NULL::bigint
) AS r (last_run_at, last_outcome, last_success_at, consecutive_failures)
