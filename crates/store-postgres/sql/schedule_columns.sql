-- What is read of a schedule, in the order the decoder expects; the statement that follows says from where. What most
-- schedules have is left out, as in `job_columns`.
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, nullif(s.description, ''), nullif(s.labels::text, '{}'), s.cron, s.every_us, s.at,
  s.timezone, nullif(s.dst_gap, 'next'), nullif(s.dst_overlap, 'first'),
  s.starts_at, s.ends_at, s.calendar, s.target::text, s.input::text, s.template_id, s.queue, s.priority,
  nullif(s.serial, false), nullif(s.retry::text, '{}'), s.timeout_us, nullif(s.missed::text, '{"policy":"once"}'),
  nullif(s.overlap, 'allow'), s.max_concurrent_runs, nullif(s.jitter_us, 0), s.depends_on, s.depends_within_us,
  s.grant_id, s.owner, nullif(s.source, 'api'), nullif(s.burst_allowed, false), s.pause_after_failures,
  s.tags::text,
  nullif(t.enabled, true), t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id,
  t.fired_through, t.exhausted_at, t.problem, t.no_executor_since, t.paused_at, t.paused_by, t.pause_note, t.paused_until,
  nullif(t.fired_from, 'store'), t.forgiven_at, t.forgiven_failures,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures
