-- Queue control: bulk operations and how far each has come; unique jobs; serial keys that are held by a failure; parameters of
-- templates; cron presets.

CREATE TABLE punctual_bulk_operations (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  created_at INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('cancel', 'retry', 'reprioritise')),
  filter TEXT NOT NULL CHECK (json_valid(filter)),
  -- Whose jobs it is about; null for everybody's.
  owner TEXT,
  priority INTEGER,
  asked_by TEXT,
  -- The state that is looked through, by its place among those that the action takes, and the last job looked at.
  cursor_state INTEGER NOT NULL DEFAULT 0 CHECK (cursor_state >= 0),
  cursor_after BLOB NOT NULL CHECK (length(cursor_after) = 16),
  done INTEGER NOT NULL DEFAULT 0,
  passed INTEGER NOT NULL DEFAULT 0,
  -- When its last step was taken, so that several go on in turn.
  stepped_at INTEGER NOT NULL,
  ended_at INTEGER,
  cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1)),
  CHECK ((action = 'reprioritise') = (priority IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_bulk_operations_open ON punctual_bulk_operations (stepped_at, id) WHERE ended_at IS NULL;
CREATE INDEX punctual_bulk_operations_owner ON punctual_bulk_operations (owner, id) WHERE owner IS NOT NULL;

-- Which job was made last under a unique key, and until when it stands for others.
CREATE TABLE punctual_unique_keys (
  key TEXT NOT NULL PRIMARY KEY,
  job_id BLOB NOT NULL,
  until_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_unique_keys_job ON punctual_unique_keys (job_id);
CREATE INDEX punctual_unique_keys_until ON punctual_unique_keys (until_at);

-- Serial keys whose next jobs wait, and the job whose failure they wait for.
CREATE TABLE punctual_serial_holds (
  key TEXT NOT NULL PRIMARY KEY,
  job_id BLOB NOT NULL,
  held_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE punctual_templates ADD COLUMN parameters TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(parameters));

CREATE TABLE punctual_cron_presets (
  name TEXT NOT NULL PRIMARY KEY,
  expression TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
