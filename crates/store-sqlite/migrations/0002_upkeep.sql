-- Upkeep: the outbox, since when a schedule fails, who fires it, and a ledger that is closed between two prunings.

-- News that somebody must be told of, written in the transaction of what it tells. `taken_by` is the lease of the node
-- that delivers it; when that lease is gone, another node may take it.
CREATE TABLE punctual_outbox (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  created_at INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('run_failed', 'recovered', 'node_lost')),
  job_id BLOB,
  schedule_id BLOB,
  node_id BLOB,
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  taken_by BLOB,
  delivered_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_outbox_open ON punctual_outbox (id) WHERE delivered_at IS NULL;

-- Set by a failure that was told, cleared by the next success; `recovered_from` is what the last success cleared.
ALTER TABLE punctual_schedule_results ADD COLUMN failing_since INTEGER;
ALTER TABLE punctual_schedule_results ADD COLUMN recovered_from INTEGER;

-- What is fired from the memory of the processes that declare it has a next slot here, and is never due.
ALTER TABLE punctual_schedule_state ADD COLUMN fired_from TEXT NOT NULL DEFAULT 'store'
  CHECK (fired_from IN ('store', 'memory'));
DROP INDEX punctual_schedule_state_unplanned;
CREATE INDEX punctual_schedule_state_unplanned ON punctual_schedule_state (schedule_id)
  WHERE enabled = 1 AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL AND fired_from = 'store';

-- Below the marks a pruning may delete, and nobody else: it says that it goes on, and that it is over, in its own
-- transaction.
ALTER TABLE punctual_retention ADD COLUMN pruning INTEGER NOT NULL DEFAULT 0 CHECK (pruning IN (0, 1));
DROP TRIGGER punctual_jobs_go_with_retention;
CREATE TRIGGER punctual_jobs_go_with_retention BEFORE DELETE ON punctual_jobs
  WHEN NOT EXISTS (SELECT 1 FROM punctual_retention WHERE ledger = 'runs' AND pruning = 1 AND before > OLD.created_at)
BEGIN
  SELECT raise(ABORT, 'punctual: jobs are deleted by retention only');
END;
DROP TRIGGER punctual_runs_go_with_retention;
CREATE TRIGGER punctual_runs_go_with_retention BEFORE DELETE ON punctual_runs
  WHEN NOT EXISTS (SELECT 1 FROM punctual_retention WHERE ledger = 'runs' AND pruning = 1 AND before > OLD.finished_at)
BEGIN
  SELECT raise(ABORT, 'punctual: runs are deleted by retention only');
END;
DROP TRIGGER punctual_slots_go_with_retention;
CREATE TRIGGER punctual_slots_go_with_retention BEFORE DELETE ON punctual_slots
  WHEN NOT EXISTS (SELECT 1 FROM punctual_retention WHERE ledger = 'slots' AND pruning = 1 AND before > OLD.through)
    OR NOT EXISTS (SELECT 1 FROM punctual_schedule_state AS state
                   WHERE state.schedule_id = OLD.schedule_id AND state.fired_through >= OLD.through)
BEGIN
  SELECT raise(ABORT, 'punctual: slots are deleted by retention only, and only below fired_through');
END;

DROP VIEW punctual_schedule_rows;
CREATE VIEW punctual_schedule_rows AS
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, s.description, s.labels, s.cron, s.every_us, s.at, s.timezone, s.dst_gap, s.dst_overlap,
  s.starts_at, s.ends_at, s.calendar, s.target, s.input, s.template_id, s.queue, s.priority, s.serial, s.retry,
  s.timeout_us, s.missed, s.overlap, s.max_concurrent_runs, s.jitter_us, s.depends_on, s.depends_within_us,
  s.grant_id, s.owner, s.source,
  t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id, t.fired_through,
  t.exhausted_at, t.problem, t.paused_at, t.paused_by, t.pause_note, t.fired_from,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures,
  s.deleted_at, t.schedule_id
FROM punctual_schedule_state AS t
JOIN punctual_schedules AS s ON s.id = t.schedule_id
LEFT JOIN punctual_schedule_results AS r ON r.schedule_id = t.schedule_id;
