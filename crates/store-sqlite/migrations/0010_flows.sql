-- Flows: their definitions, and how far each run of one is. A flow's own job stands in `punctual_running` without a node
-- while its steps are jobs like any others.

CREATE TABLE punctual_flows (
  name TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL CHECK (version >= 1),
  definition TEXT NOT NULL CHECK (json_valid(definition)),
  owner TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_flows_owner ON punctual_flows (owner, name) WHERE owner IS NOT NULL;

-- One row for each flow that has begun, with the definition as it was then.
CREATE TABLE punctual_flow_runs (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  definition TEXT NOT NULL CHECK (json_valid(definition)),
  depth INTEGER NOT NULL CHECK (depth >= 1),
  -- Why nothing more is started.
  stopping TEXT CHECK (stopping IN ('dependency_failed', 'cancelled', 'replaced', 'timeout')),
  started_at INTEGER NOT NULL,
  deadline INTEGER,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_flow_runs_deadline ON punctual_flow_runs (deadline, job_id)
  WHERE deadline IS NOT NULL AND ended_at IS NULL AND (stopping IS NULL OR stopping = 'dependency_failed');

-- One row for each step: how many steps before it have not ended, and how it went. A join is this one number.
CREATE TABLE punctual_flow_steps (
  flow_id BLOB NOT NULL REFERENCES punctual_flow_runs (job_id),
  step INTEGER NOT NULL CHECK (step >= 0),
  name TEXT NOT NULL,
  waits INTEGER NOT NULL CHECK (waits >= 0),
  job_id BLOB,
  started_at INTEGER,
  ended_at INTEGER,
  outcome TEXT CHECK (outcome IN ('completed', 'failed', 'skipped', 'cancelled')),
  error_code TEXT CHECK (error_code IN (
    'grant_missing', 'grant_revoked', 'grant_expired', 'scope_denied', 'no_executor', 'target_rejected',
    'target_error', 'bad_output', 'output_too_large', 'timeout', 'node_lost', 'interrupted', 'cancelled', 'replaced',
    'dependency_failed', 'internal')),
  error TEXT,
  -- What it returned, if a later step asks for it.
  output TEXT CHECK (output IS NULL OR json_valid(output)),
  items INTEGER CHECK (items >= 0),
  items_started INTEGER NOT NULL DEFAULT 0,
  items_ended INTEGER NOT NULL DEFAULT 0,
  items_failed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (flow_id, step),
  CHECK (items_failed <= items_ended AND items_ended <= items_started AND items_started <= coalesce(items, 0)),
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT, WITHOUT ROWID;

-- The items that a step is run for.
CREATE TABLE punctual_flow_items (
  flow_id BLOB NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL CHECK (item >= 0),
  value TEXT NOT NULL CHECK (json_valid(value)),
  job_id BLOB,
  outcome TEXT CHECK (outcome IN ('completed', 'failed', 'skipped', 'cancelled')),
  error TEXT,
  output TEXT CHECK (output IS NULL OR json_valid(output)),
  PRIMARY KEY (flow_id, step, item)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_flow_items_open ON punctual_flow_items (flow_id, step, item)
  WHERE job_id IS NULL AND outcome IS NULL;

-- The step that a job was made for; retries have rows of their own.
CREATE TABLE punctual_flow_jobs (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  flow_id BLOB NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_flow_jobs_flow ON punctual_flow_jobs (flow_id, job_id);

-- Flows that run, which are few beside the jobs that do.
CREATE INDEX punctual_running_flows ON punctual_running (job_id) WHERE lease_id IS NULL;
