-- Access: whose a job is, API tokens and sessions, idempotency keys, the audit log, grants, and what the lists read.
--
-- The same tables as in SQLite; as everywhere, ids are `uuid`, times `timestamptz`, documents `json`.

-- Whose a job is; null for what was made without saying. Retries and the jobs of a schedule inherit it.
ALTER TABLE punctual_internal.jobs ADD COLUMN owner text COLLATE "C";
CREATE INDEX jobs_owner ON punctual_internal.jobs (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX schedules_owner ON punctual_internal.schedules (owner, name)
  WHERE owner IS NOT NULL AND deleted_at IS NULL;

-- In the order in which runs ended: what the event stream follows and what is counted of the last hour.
CREATE INDEX runs_finished ON punctual_internal.runs (finished_at, job_id);
-- The few that did not complete, so that they are found among the many that did.
CREATE INDEX runs_not_completed ON punctual_internal.runs (outcome, job_id) WHERE outcome <> 'completed';

-- Those that wait for another job, so that they are counted without reading past those that wait for their time.
CREATE INDEX delayed_waiting ON punctual_internal.delayed (job_id) WHERE run_at IS NULL;

-- Of a secret only its hash is kept; the prefix is what it is found by.
CREATE TABLE punctual_internal.api_tokens (
  id uuid NOT NULL PRIMARY KEY,
  prefix text COLLATE "C" NOT NULL UNIQUE,
  hash bytea NOT NULL CHECK (length(hash) = 32),
  name text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  role text COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
  expires_at timestamptz,
  created_at timestamptz NOT NULL,
  revoked_at timestamptz,
  last_used_at timestamptz
);

CREATE TABLE punctual_internal.sessions (
  hash bytea NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  token_id uuid NOT NULL REFERENCES punctual_internal.api_tokens (id),
  expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_expire ON punctual_internal.sessions (expires_at);
CREATE INDEX sessions_token ON punctual_internal.sessions (token_id);

-- Written in the transaction of the change itself, so that a repeated request finds the answer or nothing at all. The
-- key is taken before the work and the answer written after it: whoever comes with the same key waits in between.
CREATE TABLE punctual_internal.idempotency_keys (
  owner text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
  status integer NOT NULL,
  answer text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_keys_age ON punctual_internal.idempotency_keys (created_at);

CREATE TABLE punctual_internal.audit_log (
  id uuid NOT NULL PRIMARY KEY,
  at timestamptz NOT NULL,
  actor text COLLATE "C" NOT NULL,
  token_id uuid,
  action text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  request_id text COLLATE "C",
  before json,
  after json
);
CREATE INDEX audit_log_subject ON punctual_internal.audit_log (subject, id);
CREATE TRIGGER audit_log_never_changes BEFORE UPDATE OR DELETE ON punctual_internal.audit_log FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('the audit log is insert-only');
CREATE TRIGGER audit_log_is_not_truncated BEFORE TRUNCATE ON punctual_internal.audit_log
  EXECUTE FUNCTION punctual_internal.refuse('the audit log is insert-only');

CREATE TABLE punctual_internal.grants (
  id uuid NOT NULL PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  billing_account text COLLATE "C" NOT NULL,
  scopes json NOT NULL,
  expires_at timestamptz,
  revoked_at timestamptz,
  created_at timestamptz NOT NULL
);
CREATE INDEX grants_owner ON punctual_internal.grants (owner, id);
