-- Flows: their definitions, and how far each run of one is. A flow's own job stands in `running` without a node while its
-- steps are jobs like any others. No references to `jobs`, which is partitioned; `doctor` looks after that.

CREATE TABLE punctual_internal.flows (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  version bigint NOT NULL CHECK (version >= 1),
  definition json NOT NULL,
  owner text COLLATE "C",
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX flows_owner ON punctual_internal.flows (owner, name) WHERE owner IS NOT NULL;

-- One row for each flow that has begun, with the definition as it was then. Whoever finishes a step locks it.
CREATE TABLE punctual_internal.flow_runs (
  job_id uuid NOT NULL PRIMARY KEY,
  definition json NOT NULL,
  depth integer NOT NULL CHECK (depth >= 1),
  -- Why nothing more is started.
  stopping text COLLATE "C" CHECK (stopping IN ('dependency_failed', 'cancelled', 'replaced', 'timeout')),
  started_at timestamptz NOT NULL,
  deadline timestamptz,
  ended_at timestamptz
);
CREATE INDEX flow_runs_deadline ON punctual_internal.flow_runs (deadline, job_id)
  WHERE deadline IS NOT NULL AND ended_at IS NULL AND (stopping IS NULL OR stopping = 'dependency_failed');

-- One row for each step: how many steps before it have not ended, and how it went. A join is this one number.
CREATE TABLE punctual_internal.flow_steps (
  flow_id uuid NOT NULL REFERENCES punctual_internal.flow_runs (job_id),
  step integer NOT NULL CHECK (step >= 0),
  name text COLLATE "C" NOT NULL,
  waits integer NOT NULL CHECK (waits >= 0),
  job_id uuid,
  started_at timestamptz,
  ended_at timestamptz,
  outcome text COLLATE "C" CHECK (outcome IN ('completed', 'failed', 'skipped', 'cancelled')),
  error_code text COLLATE "C" CHECK (error_code IN (
    'grant_missing', 'grant_revoked', 'grant_expired', 'scope_denied', 'no_executor', 'target_rejected',
    'target_error', 'bad_output', 'output_too_large', 'timeout', 'node_lost', 'interrupted', 'cancelled', 'replaced',
    'dependency_failed', 'internal')),
  error text COLLATE "C",
  -- What it returned, if a later step asks for it.
  output json,
  items integer CHECK (items >= 0),
  items_started integer NOT NULL DEFAULT 0,
  items_ended integer NOT NULL DEFAULT 0,
  items_failed integer NOT NULL DEFAULT 0,
  PRIMARY KEY (flow_id, step),
  CHECK (items_failed <= items_ended AND items_ended <= items_started AND items_started <= coalesce(items, 0)),
  CHECK ((ended_at IS NULL) = (outcome IS NULL))
) WITH (fillfactor = 70);

-- The items that a step is run for.
CREATE TABLE punctual_internal.flow_items (
  flow_id uuid NOT NULL,
  step integer NOT NULL,
  item integer NOT NULL CHECK (item >= 0),
  value json NOT NULL,
  job_id uuid,
  outcome text COLLATE "C" CHECK (outcome IN ('completed', 'failed', 'skipped', 'cancelled')),
  error text COLLATE "C",
  output json,
  PRIMARY KEY (flow_id, step, item)
);
CREATE INDEX flow_items_open ON punctual_internal.flow_items (flow_id, step, item)
  WHERE job_id IS NULL AND outcome IS NULL;

-- The step that a job was made for; retries have rows of their own.
CREATE TABLE punctual_internal.flow_jobs (
  job_id uuid NOT NULL PRIMARY KEY,
  flow_id uuid NOT NULL,
  step integer NOT NULL,
  item integer
);
CREATE INDEX flow_jobs_flow ON punctual_internal.flow_jobs (flow_id, job_id);

-- Flows that run, which are few beside the jobs that do.
CREATE INDEX running_flows ON punctual_internal.running (job_id) WHERE lease_id IS NULL;
