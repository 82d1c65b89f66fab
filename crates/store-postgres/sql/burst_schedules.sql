-- The due schedules that no cap on fires holds back; asked for under a cap only.
--
-- Differs from SQLite as `due_schedules` does.
FROM (
  SELECT t.* FROM punctual_internal.schedule_state AS t
  WHERE t.enabled AND t.next_run_at IS NOT NULL AND t.next_run_at <= coalesce($1, now())
    AND t.schedule_id IN (SELECT id FROM punctual_internal.schedules WHERE burst_allowed AND deleted_at IS NULL)
  ORDER BY t.schedule_id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
CROSS JOIN (
  SELECT NULL::timestamptz, NULL::text, NULL::timestamptz, NULL::bigint
) AS r (last_run_at, last_outcome, last_success_at, consecutive_failures)
