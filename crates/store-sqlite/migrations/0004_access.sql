-- Access: whose a job is, API tokens and sessions, idempotency keys, the audit log, grants, and what the lists read.

-- Whose a job is; null for what was made without saying. Retries and the jobs of a schedule inherit it.
ALTER TABLE punctual_jobs ADD COLUMN owner TEXT;
CREATE INDEX punctual_jobs_owner ON punctual_jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX punctual_schedules_owner ON punctual_schedules (owner, name)
  WHERE owner IS NOT NULL AND deleted_at IS NULL;

-- In the order in which runs ended: what the event stream follows and what is counted of the last hour.
CREATE INDEX punctual_runs_finished ON punctual_runs (finished_at, job_id);
-- The few that did not complete, so that they are found among the many that did.
CREATE INDEX punctual_runs_not_completed ON punctual_runs (outcome, job_id) WHERE outcome <> 'completed';

-- Those that wait for another job, so that they are counted without reading past those that wait for their time.
CREATE INDEX punctual_delayed_waiting ON punctual_delayed (job_id) WHERE run_at IS NULL;

DROP VIEW punctual_job_rows;
CREATE VIEW punctual_job_rows AS
SELECT
  j.id, j.created_at, j.target, j.input, l.queue, j.priority, j.run_at, j.serial_key, j.tags, j.retry, j.timeout_us,
  j.template_id, j.grant_id, j.trigger, j.trigger_detail, j.trace_context, j.owner,
  j.schedule_id, j.slot_at, j.retry_of, j.root_job_id, j.chain_began_at, j.attempt, j.failures, j.interruptions
FROM punctual_jobs AS j
JOIN punctual_lanes AS l ON l.id = j.lane_id;

-- Of a secret only its hash is kept; the prefix is what it is found by.
CREATE TABLE punctual_api_tokens (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  prefix TEXT NOT NULL UNIQUE,
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER,
  last_used_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_sessions (
  hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  token_id BLOB NOT NULL REFERENCES punctual_api_tokens (id),
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_sessions_expire ON punctual_sessions (expires_at);
CREATE INDEX punctual_sessions_token ON punctual_sessions (token_id);

-- Written in the transaction of the change itself, so that a repeated request finds the answer or nothing at all.
CREATE TABLE punctual_idempotency_keys (
  owner TEXT NOT NULL,
  key TEXT NOT NULL,
  fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
  status INTEGER NOT NULL,
  answer TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_idempotency_keys_age ON punctual_idempotency_keys (created_at);

CREATE TABLE punctual_audit_log (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  token_id BLOB,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  request_id TEXT,
  before TEXT CHECK (before IS NULL OR json_valid(before)),
  after TEXT CHECK (after IS NULL OR json_valid(after))
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_audit_log_subject ON punctual_audit_log (subject, id);
CREATE TRIGGER punctual_audit_log_never_changes BEFORE UPDATE ON punctual_audit_log
BEGIN
  SELECT raise(ABORT, 'punctual: the audit log is insert-only');
END;
CREATE TRIGGER punctual_audit_log_stays BEFORE DELETE ON punctual_audit_log
BEGIN
  SELECT raise(ABORT, 'punctual: the audit log is insert-only');
END;

CREATE TABLE punctual_grants (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  owner TEXT NOT NULL,
  billing_account TEXT NOT NULL,
  scopes TEXT NOT NULL CHECK (json_valid(scopes)),
  expires_at INTEGER,
  revoked_at INTEGER,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_grants_owner ON punctual_grants (owner, id);
