-- Job keys, of which only one waits at a time, and the mark on schedules whose target no live node offers.

ALTER TABLE punctual_jobs ADD COLUMN job_key TEXT;
ALTER TABLE punctual_jobs ADD COLUMN job_key_mode TEXT
  CHECK (job_key_mode IS NULL OR job_key_mode IN ('replace', 'preserve_run_at', 'unsafe_dedupe'));

-- The job that was made last under a key. Its retries are found from it, so that neither claim nor finish writes here,
-- and a row whose job has ended means that the key is free.
CREATE TABLE punctual_job_keys (
  key TEXT NOT NULL PRIMARY KEY,
  job_id BLOB NOT NULL REFERENCES punctual_jobs (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_job_keys_job ON punctual_job_keys (job_id);

-- What a node must offer to run the schedule's jobs, as `Target::job_type` says.
ALTER TABLE punctual_schedules ADD COLUMN job_type TEXT GENERATED ALWAYS AS (
  CASE json_extract(target, '$.kind')
    WHEN 'sql' THEN 'sql:' || json_extract(target, '$.connection')
    WHEN 'task' THEN 'task:' || json_extract(target, '$.name')
    ELSE json_extract(target, '$.kind') END) VIRTUAL;
CREATE INDEX punctual_schedules_job_type ON punctual_schedules (job_type, id) WHERE deleted_at IS NULL;

ALTER TABLE punctual_schedule_state ADD COLUMN no_executor_since INTEGER;
CREATE INDEX punctual_schedule_state_no_executor ON punctual_schedule_state (schedule_id)
  WHERE no_executor_since IS NOT NULL;

-- How rows are read: the column order is what the decoder expects.
DROP VIEW punctual_schedule_rows;
CREATE VIEW punctual_schedule_rows AS
SELECT
  s.id, s.version, s.created_at, s.updated_at, s.anchor_at, s.seed,
  s.name, s.description, s.labels, s.cron, s.every_us, s.at, s.timezone, s.dst_gap, s.dst_overlap,
  s.starts_at, s.ends_at, s.calendar, s.target, s.input, s.template_id, s.queue, s.priority, s.serial, s.retry,
  s.timeout_us, s.missed, s.overlap, s.max_concurrent_runs, s.jitter_us, s.depends_on, s.depends_within_us,
  s.grant_id, s.owner, s.source,
  t.enabled, t.next_slot_at, t.next_run_at, t.last_slot_at, t.last_enqueued_at, t.last_job_id, t.fired_through,
  t.exhausted_at, t.problem, t.no_executor_since, t.paused_at, t.paused_by, t.pause_note,
  t.fired_from,
  r.last_run_at, r.last_outcome, r.last_success_at, r.consecutive_failures,
  s.deleted_at, t.schedule_id, s.job_type
FROM punctual_schedule_state AS t
JOIN punctual_schedules AS s ON s.id = t.schedule_id
LEFT JOIN punctual_schedule_results AS r ON r.schedule_id = t.schedule_id;

DROP VIEW punctual_job_rows;
CREATE VIEW punctual_job_rows AS
SELECT
  j.id, j.created_at, j.target, j.input, l.queue, j.priority, j.run_at, j.serial_key, j.job_key, j.job_key_mode, j.tags,
  j.retry, j.timeout_us, j.template_id, j.grant_id, j.trigger, j.trigger_detail, j.trace_context, j.owner,
  j.schedule_id, j.slot_at, j.retry_of, j.root_job_id, j.chain_began_at, j.attempt, j.failures, j.interruptions
FROM punctual_jobs AS j
JOIN punctual_lanes AS l ON l.id = j.lane_id;
