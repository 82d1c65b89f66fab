-- Policies: named calendars, pauses that end by themselves or begin after failures, and a cap on fires.

CREATE TABLE punctual_calendars (
  name TEXT NOT NULL PRIMARY KEY,
  description TEXT NOT NULL DEFAULT '',
  rules TEXT NOT NULL CHECK (json_valid(rules)),
  version INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE punctual_schedules ADD COLUMN burst_allowed INTEGER NOT NULL DEFAULT 0 CHECK (burst_allowed IN (0, 1));
ALTER TABLE punctual_schedules ADD COLUMN pause_after_failures INTEGER CHECK (pause_after_failures > 0);
CREATE INDEX punctual_schedules_calendar ON punctual_schedules (calendar, name)
  WHERE calendar IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX punctual_schedules_burst ON punctual_schedules (id) WHERE burst_allowed = 1 AND deleted_at IS NULL;

ALTER TABLE punctual_schedule_state ADD COLUMN paused_until INTEGER;
-- The failures in a row that were there when it last went on after a pause: they do not count towards the next one.
ALTER TABLE punctual_schedule_state ADD COLUMN forgiven_at INTEGER;
ALTER TABLE punctual_schedule_state ADD COLUMN forgiven_failures INTEGER;
CREATE INDEX punctual_schedule_state_resumes ON punctual_schedule_state (paused_until, schedule_id)
  WHERE paused_until IS NOT NULL;

-- The reason in more words: which holiday, whose pause.
ALTER TABLE punctual_slots ADD COLUMN note TEXT;

-- At most one row: the cap on fires and what fired in the last second. No row, no cap.
CREATE TABLE punctual_fire_cap (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  state TEXT NOT NULL CHECK (json_valid(state))
) STRICT;

-- How rows are read: the column order is what the decoder expects.
DROP VIEW punctual_schedule_rows;
CREATE VIEW punctual_schedule_rows AS
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, s.description, s.labels, s.cron, s.every_us, s.at, s.timezone, s.dst_gap, s.dst_overlap,
  s.starts_at, s.ends_at, s.calendar, s.target, s.input, s.template_id, s.queue, s.priority, s.serial, s.retry,
  s.timeout_us, s.missed, s.overlap, s.max_concurrent_runs, s.jitter_us, s.depends_on, s.depends_within_us,
  s.grant_id, s.owner, s.source, s.burst_allowed, s.pause_after_failures,
  t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id, t.fired_through,
  t.exhausted_at, t.problem, t.no_executor_since, t.paused_at, t.paused_by, t.pause_note, t.paused_until,
  t.fired_from, t.forgiven_at, t.forgiven_failures,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures,
  s.deleted_at, t.schedule_id, s.job_type
FROM punctual_schedule_state AS t
JOIN punctual_schedules AS s ON s.id = t.schedule_id
LEFT JOIN punctual_schedule_results AS r ON r.schedule_id = t.schedule_id;
