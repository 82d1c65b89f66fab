-- Where schedules stand after a decision. The watermark and the last slot only rise; what is null stays.
--
-- Differs from SQLite: a whole batch at once, and only if the definition is still the one that was decided by; fewer
-- rows than were sent mean that somebody edited one meanwhile.
UPDATE punctual_internal.schedule_state AS t SET
  next_slot_at = w.next_slot_at,
  next_run_at = w.next_run_at,
  exhausted_at = w.exhausted_at,
  problem = NULL,
  no_executor_since = NULL,
  last_slot_at = greatest(t.last_slot_at, w.last_slot_at),
  fired_through = greatest(t.fired_through, w.fired_through),
  last_job_id = coalesce(w.last_job_id, t.last_job_id),
  last_enqueued_at = CASE WHEN w.last_job_id IS NULL THEN t.last_enqueued_at ELSE $1 END
FROM unnest($2::uuid[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[],
            $8::timestamptz[], $9::uuid[])
  AS w (schedule_id, version, next_slot_at, next_run_at, exhausted_at, last_slot_at, fired_through, last_job_id)
CROSS JOIN LATERAL (
  SELECT version FROM punctual_internal.schedules WHERE id = w.schedule_id OFFSET 0
) AS s
WHERE t.schedule_id = w.schedule_id AND s.version = w.version
