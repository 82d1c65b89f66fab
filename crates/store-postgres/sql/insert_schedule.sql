-- Stores a definition.
INSERT INTO punctual_internal.schedules (
  id, name, description, labels, cron, every_us, at, timezone, dst_gap, dst_overlap, starts_at, ends_at, calendar, target,
  input, template_id, queue, priority, serial, retry, timeout_us, missed, overlap, max_concurrent_runs, jitter_us,
  depends_on, depends_within_us, grant_id, owner, source, version, seed, anchor_at, created_at, updated_at, burst_allowed,
  pause_after_failures, tags)
VALUES ($1, $2, $3, $4::text::json, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14::text::json, $15::text::json, $16, $17,
        $18, $19, $20::text::json, $21, $22::text::json, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36,
        $37, $38::text::json)
ON CONFLICT (id) DO UPDATE SET
  name = excluded.name, description = excluded.description, labels = excluded.labels, cron = excluded.cron,
  every_us = excluded.every_us, at = excluded.at, timezone = excluded.timezone, dst_gap = excluded.dst_gap,
  dst_overlap = excluded.dst_overlap, starts_at = excluded.starts_at, ends_at = excluded.ends_at,
  calendar = excluded.calendar, target = excluded.target, input = excluded.input, template_id = excluded.template_id,
  queue = excluded.queue, priority = excluded.priority, serial = excluded.serial, retry = excluded.retry,
  timeout_us = excluded.timeout_us, missed = excluded.missed, overlap = excluded.overlap,
  max_concurrent_runs = excluded.max_concurrent_runs, jitter_us = excluded.jitter_us, depends_on = excluded.depends_on,
  depends_within_us = excluded.depends_within_us, grant_id = excluded.grant_id, owner = excluded.owner,
  source = excluded.source, version = excluded.version, anchor_at = excluded.anchor_at,
  updated_at = excluded.updated_at, burst_allowed = excluded.burst_allowed,
  pause_after_failures = excluded.pause_after_failures, tags = excluded.tags
