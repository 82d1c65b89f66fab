-- What is read of a schedule, in the order the decoder expects; the statement that follows says from where.
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, s.description, s.labels::text, s.cron, s.every_us, s.at, s.timezone, s.dst_gap, s.dst_overlap,
  s.starts_at, s.ends_at, s.calendar, s.target::text, s.input::text, s.template_id, s.queue, s.priority, s.serial,
  s.retry::text, s.timeout_us, s.missed::text, s.overlap, s.max_concurrent_runs, s.jitter_us, s.depends_on,
  s.depends_within_us, s.grant_id, s.owner, s.source,
  t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id, t.fired_through,
  t.exhausted_at, t.problem, t.no_executor_since, t.paused_at, t.paused_by, t.pause_note, t.fired_from,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures
