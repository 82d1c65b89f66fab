-- The ground: two insert-only ledgers, small hot tables, schedules with their slot ledger, nodes and reservations.
--
-- Names carry the prefix `punctual_` because the file is often the application's own, and its `jobs` is not ours;
-- PostgreSQL has schemas for that. Times are microseconds since 1970 in UTC, ids are the 16 bytes of a UUID.
-- Tables are STRICT and closed sets are CHECKed, so that a hand-made UPDATE cannot write what no reader expects. For a
-- set of more than two words SQLite makes a table of them, anew for each row that is written, whether or not there is a
-- value: in the hot tables what most rows have is asked for first, by itself.

CREATE TABLE punctual_queues (
  name TEXT NOT NULL PRIMARY KEY,
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The jobs of one queue that have one job type and the same limited tags, in a sorted list. Claiming looks at the head
-- of each lane it may take from, so it never reads past a job that its node cannot run, whose queue is paused or that
-- a limit keeps back.
CREATE TABLE punctual_lanes (
  id INTEGER PRIMARY KEY,
  queue TEXT NOT NULL REFERENCES punctual_queues (name),
  job_type TEXT NOT NULL,
  tags TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(tags)),
  UNIQUE (queue, job_type, tags)
) STRICT;

-- A sequence: positions are handed out from here, so that an insert asks for no max().
CREATE TABLE punctual_counters (
  name TEXT NOT NULL PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO punctual_counters (name, value) VALUES ('position', 0);

CREATE TABLE punctual_templates (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  name TEXT NOT NULL UNIQUE,
  job TEXT NOT NULL CHECK (json_valid(job)),
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_schedules (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  name TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  labels TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(labels)),
  cron TEXT,
  every_us INTEGER,
  at INTEGER,
  timezone TEXT NOT NULL DEFAULT 'UTC',
  dst_gap TEXT NOT NULL DEFAULT 'next' CHECK (dst_gap IN ('next', 'skip')),
  dst_overlap TEXT NOT NULL DEFAULT 'first' CHECK (dst_overlap IN ('first', 'both', 'second')),
  starts_at INTEGER,
  ends_at INTEGER,
  calendar TEXT,
  target TEXT NOT NULL CHECK (json_valid(target)),
  input TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(input)),
  template_id BLOB,
  queue TEXT NOT NULL DEFAULT 'default',
  priority INTEGER NOT NULL DEFAULT 0,
  serial INTEGER NOT NULL DEFAULT 0 CHECK (serial IN (0, 1)),
  retry TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(retry)),
  timeout_us INTEGER,
  missed TEXT NOT NULL DEFAULT '{"policy":"once"}' CHECK (json_valid(missed)),
  overlap TEXT NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'forbid', 'replace', 'queue_one')),
  max_concurrent_runs INTEGER CHECK (max_concurrent_runs > 0),
  jitter_us INTEGER NOT NULL DEFAULT 0 CHECK (jitter_us >= 0),
  depends_on BLOB,
  depends_within_us INTEGER,
  grant_id BLOB,
  owner TEXT,
  source TEXT NOT NULL DEFAULT 'api' CHECK (source IN ('api', 'code', 'file', 'sql')),
  version INTEGER NOT NULL DEFAULT 1,
  seed TEXT NOT NULL,
  anchor_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  deleted_at INTEGER,
  CHECK ((cron IS NOT NULL) + (every_us IS NOT NULL) + (at IS NOT NULL) = 1)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX punctual_schedules_name ON punctual_schedules (name) WHERE deleted_at IS NULL;

-- What a schedule was before each edit, so that the past can be explained by the rules that were in force.
CREATE TABLE punctual_schedule_versions (
  schedule_id BLOB NOT NULL REFERENCES punctual_schedules (id),
  version INTEGER NOT NULL,
  replaced_at INTEGER NOT NULL,
  definition TEXT NOT NULL CHECK (json_valid(definition)),
  PRIMARY KEY (schedule_id, version)
) STRICT, WITHOUT ROWID;

-- Narrow, and written by fire (and by pause, resume, reschedule, edit), never by finish.
CREATE TABLE punctual_schedule_state (
  schedule_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_schedules (id),
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  next_slot_at INTEGER,
  next_run_at INTEGER,
  last_slot_at INTEGER,
  last_enqueued_at INTEGER,
  last_job_id BLOB,
  fired_through INTEGER,
  exhausted_at INTEGER,
  problem TEXT,
  paused_at INTEGER,
  paused_by TEXT,
  pause_note TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_schedule_state_due ON punctual_schedule_state (next_run_at, schedule_id)
  WHERE enabled = 1 AND next_run_at IS NOT NULL;
CREATE INDEX punctual_schedule_state_unplanned ON punctual_schedule_state (schedule_id)
  WHERE enabled = 1 AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL;
CREATE TRIGGER punctual_schedule_state_fired_through_never_goes_back
  BEFORE UPDATE OF fired_through ON punctual_schedule_state
  WHEN OLD.fired_through IS NOT NULL AND coalesce(NEW.fired_through < OLD.fired_through, 1)
BEGIN
  SELECT raise(ABORT, 'punctual: fired_through never goes back');
END;

-- Written by finish alone, so that fire and finish never change the same row.
CREATE TABLE punctual_schedule_results (
  schedule_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_schedules (id),
  last_run_at INTEGER,
  last_outcome TEXT CHECK (last_outcome IN ('completed', 'failed') OR last_outcome IN ('skipped', 'cancelled')),
  last_success_at INTEGER,
  consecutive_failures INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_jobs (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  created_at INTEGER NOT NULL,
  lane_id INTEGER NOT NULL REFERENCES punctual_lanes (id),
  priority INTEGER NOT NULL,
  target TEXT NOT NULL CHECK (json_valid(target)),
  input TEXT NOT NULL CHECK (json_valid(input)),
  run_at INTEGER,
  serial_key TEXT,
  tags TEXT CHECK (tags IS NULL OR json_valid(tags)),
  retry TEXT NOT NULL CHECK (json_valid(retry)),
  timeout_us INTEGER,
  template_id BLOB,
  grant_id BLOB,
  trigger TEXT NOT NULL
    CHECK (trigger IN ('schedule', 'api')
      OR trigger IN ('catchup', 'backfill', 'manual', 'retry', 'flow', 'dependency')),
  trigger_detail TEXT,
  trace_context TEXT,
  schedule_id BLOB REFERENCES punctual_schedules (id),
  slot_at INTEGER,
  retry_of BLOB,
  -- Null for the first job of a chain, which is almost every job.
  root_job_id BLOB,
  chain_began_at INTEGER,
  attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  failures INTEGER NOT NULL DEFAULT 0,
  interruptions INTEGER NOT NULL DEFAULT 0,
  CHECK ((retry_of IS NULL) = (root_job_id IS NULL)),
  CHECK ((retry_of IS NULL) = (chain_began_at IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_jobs_schedule ON punctual_jobs (schedule_id, id) WHERE schedule_id IS NOT NULL;

CREATE TABLE punctual_delayed (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  run_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_delayed_due ON punctual_delayed (run_at, job_id) WHERE run_at IS NOT NULL;

CREATE TABLE punctual_queue (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  lane_id INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  position INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  serial_key TEXT,
  schedule_id BLOB,
  ready INTEGER NOT NULL CHECK (ready IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_queue_ready ON punctual_queue (lane_id, priority DESC, position, created_at, job_id)
  WHERE ready = 1;
CREATE INDEX punctual_queue_held ON punctual_queue (lane_id, priority DESC, position, created_at, job_id)
  WHERE ready = 0;
CREATE INDEX punctual_queue_serial ON punctual_queue (serial_key, priority DESC, position, created_at, job_id)
  WHERE serial_key IS NOT NULL;

-- At most one job of a key may be claimed; the database says so too.
CREATE UNIQUE INDEX punctual_queue_serial_head ON punctual_queue (serial_key) WHERE serial_key IS NOT NULL AND ready = 1;

-- A flow runs without a node: its steps are jobs of their own.
CREATE TABLE punctual_running (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  node_id BLOB,
  lease_id BLOB,
  claim_id BLOB NOT NULL,
  lane_id INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  position INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  serial_key TEXT,
  schedule_id BLOB,
  started_at INTEGER NOT NULL,
  cancel_requested_at INTEGER,
  cancel_code TEXT CHECK (cancel_code IN ('cancelled', 'replaced')),
  CHECK ((node_id IS NULL) = (lease_id IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_running_lease ON punctual_running (lease_id, job_id);
-- Serial keys hold even if the code were wrong: two running jobs with one key cannot be stored.
CREATE UNIQUE INDEX punctual_running_serial ON punctual_running (serial_key) WHERE serial_key IS NOT NULL;

CREATE TABLE punctual_runs (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  node_id BLOB,
  started_at INTEGER,
  finished_at INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('completed', 'failed') OR outcome IN ('skipped', 'cancelled')),
  error_code TEXT CHECK (error_code IS NULL OR error_code IN (
    'grant_missing', 'grant_revoked', 'grant_expired', 'scope_denied', 'no_executor', 'target_rejected',
    'target_error', 'bad_output', 'output_too_large', 'timeout', 'node_lost', 'interrupted', 'cancelled', 'replaced',
    'dependency_failed', 'internal')),
  error TEXT,
  exit_code INTEGER,
  output TEXT CHECK (output IS NULL OR json_valid(output)),
  log_ref TEXT,
  final INTEGER NOT NULL CHECK (final IN (0, 1)),
  CHECK (outcome <> 'completed' OR error_code IS NULL),
  CHECK (outcome <> 'failed' OR error_code IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- One retry for each failed job, whoever makes it; outlives the retry itself, so that none is made twice.
CREATE TABLE punctual_retries (
  retry_of BLOB NOT NULL PRIMARY KEY,
  job_id BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs of a schedule that are alive, retries included: what `overlap` and `max_concurrent_runs` look at.
CREATE TABLE punctual_schedule_live (
  schedule_id BLOB NOT NULL,
  job_id BLOB NOT NULL,
  PRIMARY KEY (schedule_id, job_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_slots (
  schedule_id BLOB NOT NULL REFERENCES punctual_schedules (id),
  slot_at INTEGER NOT NULL,
  through INTEGER NOT NULL,
  count INTEGER NOT NULL CHECK (count >= 1),
  decision TEXT NOT NULL CHECK (decision = 'fired' OR decision IN ('skipped', 'missed')),
  reason TEXT NOT NULL CHECK (reason IN ('on_time', 'catchup') OR reason IN (
    'backfill', 'overlap', 'max_concurrent_runs', 'dependency', 'calendar', 'paused', 'rescheduled', 'too_late',
    'superseded', 'over_limit', 'edited')),
  job_id BLOB,
  decided_at INTEGER NOT NULL,
  node_id BLOB,
  late_ms INTEGER NOT NULL,
  schedule_version INTEGER NOT NULL,
  PRIMARY KEY (schedule_id, slot_at),
  CHECK ((decision = 'fired') = (job_id IS NOT NULL)),
  CHECK (through >= slot_at)
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_artifacts (
  job_id BLOB NOT NULL REFERENCES punctual_jobs (id),
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  location TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_nodes (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  name TEXT NOT NULL,
  offers TEXT NOT NULL CHECK (json_valid(offers)),
  started_at INTEGER NOT NULL,
  left_at INTEGER,
  lost_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_leases (
  node_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_nodes (id),
  lease_id BLOB NOT NULL UNIQUE,
  counter INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_reservations (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  queue TEXT NOT NULL REFERENCES punctual_queues (name),
  holder TEXT NOT NULL,
  reserved_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX punctual_reservations_active ON punctual_reservations (queue) WHERE ended_at IS NULL;

-- How far retention may reach: the ledgers refuse every DELETE above these marks.
CREATE TABLE punctual_retention (
  ledger TEXT NOT NULL PRIMARY KEY CHECK (ledger IN ('runs', 'slots')),
  before INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO punctual_retention (ledger, before) VALUES ('runs', 0), ('slots', 0);

CREATE TRIGGER punctual_jobs_never_change BEFORE UPDATE ON punctual_jobs
BEGIN
  SELECT raise(ABORT, 'punctual: a job is immutable; edit it by replacing it');
END;
CREATE TRIGGER punctual_jobs_go_with_retention BEFORE DELETE ON punctual_jobs
  WHEN OLD.created_at >= (SELECT before FROM punctual_retention WHERE ledger = 'runs')
BEGIN
  SELECT raise(ABORT, 'punctual: jobs are deleted by retention only');
END;
CREATE TRIGGER punctual_runs_never_change BEFORE UPDATE ON punctual_runs
BEGIN
  SELECT raise(ABORT, 'punctual: a run is immutable once it has ended');
END;
CREATE TRIGGER punctual_runs_go_with_retention BEFORE DELETE ON punctual_runs
  WHEN OLD.finished_at >= (SELECT before FROM punctual_retention WHERE ledger = 'runs')
BEGIN
  SELECT raise(ABORT, 'punctual: runs are deleted by retention only');
END;
CREATE TRIGGER punctual_slots_never_change BEFORE UPDATE ON punctual_slots
BEGIN
  SELECT raise(ABORT, 'punctual: the slot ledger is insert-only');
END;
CREATE TRIGGER punctual_slots_go_with_retention BEFORE DELETE ON punctual_slots
  WHEN OLD.through >= (SELECT before FROM punctual_retention WHERE ledger = 'slots')
    OR NOT EXISTS (SELECT 1 FROM punctual_schedule_state AS state
                   WHERE state.schedule_id = OLD.schedule_id AND state.fired_through >= OLD.through)
BEGIN
  SELECT raise(ABORT, 'punctual: slots are deleted by retention only, and only below fired_through');
END;
CREATE TRIGGER punctual_artifacts_never_change BEFORE UPDATE ON punctual_artifacts
BEGIN
  SELECT raise(ABORT, 'punctual: artifacts are append-only');
END;
CREATE TRIGGER punctual_artifacts_go_with_their_run BEFORE DELETE ON punctual_artifacts
  WHEN EXISTS (SELECT 1 FROM punctual_runs WHERE job_id = OLD.job_id)
    OR EXISTS (SELECT 1 FROM punctual_running WHERE job_id = OLD.job_id)
BEGIN
  SELECT raise(ABORT, 'punctual: artifacts are append-only');
END;

-- How rows are read: the column order is what the decoder expects.
CREATE VIEW punctual_schedule_rows AS
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, s.description, s.labels, s.cron, s.every_us, s.at, s.timezone, s.dst_gap, s.dst_overlap,
  s.starts_at, s.ends_at, s.calendar, s.target, s.input, s.template_id, s.queue, s.priority, s.serial, s.retry,
  s.timeout_us, s.missed, s.overlap, s.max_concurrent_runs, s.jitter_us, s.depends_on, s.depends_within_us,
  s.grant_id, s.owner, s.source,
  t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id, t.fired_through,
  t.exhausted_at, t.problem, t.paused_at, t.paused_by, t.pause_note,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures,
  s.deleted_at, t.schedule_id
FROM punctual_schedule_state AS t
JOIN punctual_schedules AS s ON s.id = t.schedule_id
LEFT JOIN punctual_schedule_results AS r ON r.schedule_id = t.schedule_id;

CREATE VIEW punctual_job_rows AS
SELECT
  j.id, j.created_at, j.target, j.input, l.queue, j.priority, j.run_at, j.serial_key, j.tags, j.retry, j.timeout_us,
  j.template_id, j.grant_id, j.trigger, j.trigger_detail, j.trace_context,
  j.schedule_id, j.slot_at, j.retry_of, j.root_job_id, j.chain_began_at, j.attempt, j.failures, j.interruptions
FROM punctual_jobs AS j
JOIN punctual_lanes AS l ON l.id = j.lane_id;
