-- Graphs: bounds of grants, and what the execution service keeps: accounts, graph runs, requests and receipts.

-- What is in the bucket of a rate is in units of which a run costs `rate_per_us` and every microsecond brings
-- `rate_runs`.
ALTER TABLE punctual_grants ADD COLUMN max_runs INTEGER CHECK (max_runs > 0);
ALTER TABLE punctual_grants ADD COLUMN rate_runs INTEGER CHECK (rate_runs > 0);
ALTER TABLE punctual_grants ADD COLUMN rate_per_us INTEGER CHECK (rate_per_us > 0);
ALTER TABLE punctual_grants ADD COLUMN rate_burst INTEGER CHECK (rate_burst > 0);
ALTER TABLE punctual_grants ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE punctual_grants ADD COLUMN level INTEGER;
ALTER TABLE punctual_grants ADD COLUMN level_at INTEGER;

-- Two owners may use the same name, and neither pays for the other.
CREATE TABLE punctual_billing_accounts (
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  -- Handed to providers, who charge by it; not a hash, because they must be given it.
  virtual_key TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
-- Every grant names an account; those from before get theirs, too.
INSERT INTO punctual_billing_accounts (owner, name, virtual_key, created_at)
SELECT owner, billing_account, 'vk_' || lower(hex(randomblob(32))), min(created_at) FROM punctual_grants
GROUP BY owner, billing_account;

-- A run without an end is carried on by its driver; one without a driver by whoever asks next.
CREATE TABLE punctual_graph_runs (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  graph_id TEXT NOT NULL,
  grant_id BLOB NOT NULL REFERENCES punctual_grants (id),
  owner TEXT NOT NULL,
  billing_account TEXT NOT NULL,
  input TEXT NOT NULL CHECK (json_valid(input)),
  trace_id TEXT NOT NULL,
  driver BLOB CHECK (driver IS NULL OR length(driver) = 16),
  beats INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL,
  ended_at INTEGER,
  error_code TEXT,
  error TEXT,
  output TEXT CHECK (output IS NULL OR json_valid(output)),
  provider_references TEXT CHECK (provider_references IS NULL OR json_valid(provider_references)),
  CHECK (ended_at IS NOT NULL OR (error_code IS NULL AND output IS NULL)),
  CHECK ((error_code IS NULL) = (error IS NULL)),
  FOREIGN KEY (owner, billing_account) REFERENCES punctual_billing_accounts (owner, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_graph_runs_ended ON punctual_graph_runs (ended_at, id) WHERE ended_at IS NOT NULL;
CREATE TRIGGER punctual_graph_runs_end_once BEFORE UPDATE ON punctual_graph_runs WHEN OLD.ended_at IS NOT NULL
BEGIN
  SELECT raise(ABORT, 'punctual: a graph run that has ended never changes');
END;

-- Kept as long as the run, and not as long as an idempotency key of the API: a slot may be asked for again much later.
CREATE TABLE punctual_execution_requests (
  key TEXT NOT NULL PRIMARY KEY,
  hash BLOB NOT NULL CHECK (length(hash) = 32),
  run_id BLOB NOT NULL UNIQUE REFERENCES punctual_graph_runs (id) ON DELETE CASCADE,
  service TEXT,
  answer TEXT
) STRICT, WITHOUT ROWID;

-- The bill: kept when the run is forgotten.
CREATE TABLE punctual_charge_receipts (
  run_id BLOB NOT NULL CHECK (length(run_id) = 16),
  attempt INTEGER NOT NULL,
  unit TEXT NOT NULL,
  quantity INTEGER NOT NULL CHECK (quantity >= 0),
  owner TEXT NOT NULL,
  billing_account TEXT NOT NULL,
  graph_id TEXT NOT NULL,
  grant_id BLOB NOT NULL,
  charged_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, attempt, unit)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_charge_receipts_account ON punctual_charge_receipts (owner, billing_account, charged_at);
CREATE TRIGGER punctual_charge_receipts_never_change BEFORE UPDATE ON punctual_charge_receipts
BEGIN
  SELECT raise(ABORT, 'punctual: receipts are insert-only');
END;
CREATE TRIGGER punctual_charge_receipts_stay BEFORE DELETE ON punctual_charge_receipts
BEGIN
  SELECT raise(ABORT, 'punctual: receipts are insert-only');
END;
