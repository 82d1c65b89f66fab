-- Limits: how many jobs run at once and how many start in a while, for everything, a queue, a job type or a tag.
--
-- What runs is counted in `punctual_running`; only what is in the bucket of a rate is kept here, in units of which a job
-- costs `rate_per_us` and every microsecond brings `rate_jobs`.
CREATE TABLE punctual_limits (
  scope TEXT NOT NULL CHECK (scope IN ('all', 'queue', 'type', 'tag')),
  name TEXT NOT NULL CHECK ((scope = 'all') = (name = '')),
  concurrency INTEGER CHECK (concurrency >= 0),
  node_concurrency INTEGER CHECK (node_concurrency >= 0),
  rate_jobs INTEGER CHECK (rate_jobs > 0),
  rate_per_us INTEGER CHECK (rate_per_us > 0),
  rate_burst INTEGER CHECK (rate_burst > 0),
  level INTEGER CHECK (level >= 0),
  level_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name),
  CHECK (concurrency IS NOT NULL OR node_concurrency IS NOT NULL OR rate_jobs IS NOT NULL),
  CHECK ((rate_jobs IS NULL) = (rate_per_us IS NULL) AND (rate_jobs IS NULL) = (rate_burst IS NULL)
    AND (rate_jobs IS NULL) = (level IS NULL) AND (rate_jobs IS NULL) = (level_at IS NULL))
) STRICT, WITHOUT ROWID;

ALTER TABLE punctual_schedules ADD COLUMN tags TEXT CHECK (tags IS NULL OR json_valid(tags));

-- How rows are read: the column order is what the decoder expects.
DROP VIEW punctual_schedule_rows;
CREATE VIEW punctual_schedule_rows AS
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, s.description, s.labels, s.cron, s.every_us, s.at, s.timezone, s.dst_gap, s.dst_overlap,
  s.starts_at, s.ends_at, s.calendar, s.target, s.input, s.template_id, s.queue, s.priority, s.serial, s.retry,
  s.timeout_us, s.missed, s.overlap, s.max_concurrent_runs, s.jitter_us, s.depends_on, s.depends_within_us,
  s.grant_id, s.owner, s.source, s.burst_allowed, s.pause_after_failures, s.tags,
  t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id, t.fired_through,
  t.exhausted_at, t.problem, t.no_executor_since, t.paused_at, t.paused_by, t.pause_note, t.paused_until,
  t.fired_from, t.forgiven_at, t.forgiven_failures,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures,
  s.deleted_at, t.schedule_id, s.job_type
FROM punctual_schedule_state AS t
JOIN punctual_schedules AS s ON s.id = t.schedule_id
LEFT JOIN punctual_schedule_results AS r ON r.schedule_id = t.schedule_id;
