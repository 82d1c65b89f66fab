-- Graphs: bounds of grants, and what the execution service keeps: accounts, graph runs, requests and receipts.

-- What is in the bucket of a rate is in units of which a run costs `rate_per_us` and every microsecond brings
-- `rate_runs`.
ALTER TABLE punctual_internal.grants
  ADD COLUMN max_runs bigint CHECK (max_runs > 0),
  ADD COLUMN rate_runs bigint CHECK (rate_runs > 0),
  ADD COLUMN rate_per_us bigint CHECK (rate_per_us > 0),
  ADD COLUMN rate_burst bigint CHECK (rate_burst > 0),
  ADD COLUMN runs bigint NOT NULL DEFAULT 0,
  ADD COLUMN level bigint,
  ADD COLUMN level_at timestamptz;

-- Two owners may use the same name, and neither pays for the other.
CREATE TABLE punctual_internal.billing_accounts (
  owner text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  -- Handed to providers, who charge by it; not a hash, because they must be given it.
  virtual_key text COLLATE "C" NOT NULL UNIQUE,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (owner, name)
);
-- Every grant names an account; those from before get theirs, too.
INSERT INTO punctual_internal.billing_accounts (owner, name, virtual_key, created_at)
SELECT owner, billing_account,
  'vk_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), min(created_at)
FROM punctual_internal.grants GROUP BY owner, billing_account;

-- A run without an end is carried on by its driver; one without a driver by whoever asks next. The beats change often
-- and stand in no index.
CREATE TABLE punctual_internal.graph_runs (
  id uuid NOT NULL PRIMARY KEY,
  graph_id text COLLATE "C" NOT NULL,
  grant_id uuid NOT NULL REFERENCES punctual_internal.grants (id),
  owner text COLLATE "C" NOT NULL,
  billing_account text COLLATE "C" NOT NULL,
  input json NOT NULL,
  trace_id text COLLATE "C" NOT NULL,
  driver uuid,
  beats bigint NOT NULL DEFAULT 0,
  started_at timestamptz NOT NULL,
  ended_at timestamptz,
  error_code text COLLATE "C",
  error text COLLATE "C",
  output json,
  provider_references json,
  CHECK (ended_at IS NOT NULL OR (error_code IS NULL AND output IS NULL)),
  CHECK ((error_code IS NULL) = (error IS NULL)),
  FOREIGN KEY (owner, billing_account) REFERENCES punctual_internal.billing_accounts (owner, name)
) WITH (fillfactor = 70);
CREATE INDEX graph_runs_ended ON punctual_internal.graph_runs (ended_at, id) WHERE ended_at IS NOT NULL;
CREATE TRIGGER graph_runs_end_once BEFORE UPDATE ON punctual_internal.graph_runs FOR EACH ROW
  WHEN (OLD.ended_at IS NOT NULL)
  EXECUTE FUNCTION punctual_internal.refuse('a graph run that has ended never changes');

-- Kept as long as the run, and not as long as an idempotency key of the API: a slot may be asked for again much later.
CREATE TABLE punctual_internal.execution_requests (
  key text COLLATE "C" NOT NULL PRIMARY KEY,
  hash bytea NOT NULL CHECK (length(hash) = 32),
  run_id uuid NOT NULL UNIQUE REFERENCES punctual_internal.graph_runs (id) ON DELETE CASCADE,
  service text COLLATE "C",
  answer text COLLATE "C"
);

-- The bill: kept when the run is forgotten.
CREATE TABLE punctual_internal.charge_receipts (
  run_id uuid NOT NULL,
  attempt integer NOT NULL,
  unit text COLLATE "C" NOT NULL,
  quantity bigint NOT NULL CHECK (quantity >= 0),
  owner text COLLATE "C" NOT NULL,
  billing_account text COLLATE "C" NOT NULL,
  graph_id text COLLATE "C" NOT NULL,
  grant_id uuid NOT NULL,
  charged_at timestamptz NOT NULL,
  PRIMARY KEY (run_id, attempt, unit)
);
CREATE INDEX charge_receipts_account ON punctual_internal.charge_receipts (owner, billing_account, charged_at);
CREATE TRIGGER charge_receipts_never_change BEFORE UPDATE OR DELETE ON punctual_internal.charge_receipts FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('receipts are insert-only');
CREATE TRIGGER charge_receipts_are_not_truncated BEFORE TRUNCATE ON punctual_internal.charge_receipts
  EXECUTE FUNCTION punctual_internal.refuse('receipts are insert-only');

-- Retention is the nodes' work, and a node's role may write nothing of the execution service: this is the one way.
CREATE FUNCTION punctual_internal.forget_graph_runs(before timestamptz, most bigint)
RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = '' AS $$
  WITH gone AS (
    DELETE FROM punctual_internal.graph_runs WHERE id IN (
      SELECT g.id FROM punctual_internal.graph_runs AS g WHERE g.ended_at < $1 ORDER BY g.ended_at, g.id LIMIT $2
      FOR UPDATE SKIP LOCKED)
    RETURNING 1)
  SELECT count(*) FROM gone
$$;
REVOKE ALL ON FUNCTION punctual_internal.forget_graph_runs(timestamptz, bigint) FROM PUBLIC;
