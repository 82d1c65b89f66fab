-- Notifications: where people are told, of what, what is wrong at present, and what was sent.

-- The outbox takes two more kinds of news. `delivered_at` says when a notice was taken in by the rules; who does it
-- does all of it in one transaction, so that nobody has to hold one.
CREATE TABLE punctual_outbox_new (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  created_at INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('run_failed', 'recovered', 'node_lost', 'slots_missed', 'clock_jumped')),
  job_id BLOB,
  schedule_id BLOB,
  node_id BLOB,
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  delivered_at INTEGER
) STRICT, WITHOUT ROWID;
-- What happened before there were rules concerns nobody.
INSERT INTO punctual_outbox_new (id, created_at, kind, job_id, schedule_id, node_id, payload, delivered_at)
SELECT id, created_at, kind, job_id, schedule_id, node_id, payload, coalesce(delivered_at, created_at)
FROM punctual_outbox;
DROP TABLE punctual_outbox;
ALTER TABLE punctual_outbox_new RENAME TO punctual_outbox;
CREATE INDEX punctual_outbox_open ON punctual_outbox (id) WHERE delivered_at IS NULL;

CREATE TABLE punctual_channels (
  name TEXT NOT NULL PRIMARY KEY,
  definition TEXT NOT NULL CHECK (json_valid(definition)),
  version INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `state` is what a rule remembers from one pass to the next.
CREATE TABLE punctual_rules (
  name TEXT NOT NULL PRIMARY KEY,
  definition TEXT NOT NULL CHECK (json_valid(definition)),
  state TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(state)),
  version INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_alerts (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  rule TEXT NOT NULL,
  code TEXT NOT NULL,
  alert TEXT NOT NULL CHECK (json_valid(alert)),
  closed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_alerts_open ON punctual_alerts (id) WHERE closed_at IS NULL;
CREATE INDEX punctual_alerts_rule ON punctual_alerts (rule, id);
CREATE UNIQUE INDEX punctual_alerts_code ON punctual_alerts (code);

-- One line for each channel, in order of ids. `taken_by` is the lease of the node that is sending; when that lease is
-- gone, another node sends it again under the same id.
CREATE TABLE punctual_deliveries (
  id BLOB NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  channel TEXT NOT NULL,
  alert_id BLOB,
  occasion TEXT NOT NULL,
  message TEXT NOT NULL CHECK (json_valid(message)),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'arrived', 'failed', 'dropped')),
  created_at INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  tried_since INTEGER,
  tries INTEGER NOT NULL DEFAULT 0,
  attempts TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(attempts)),
  ended_at INTEGER,
  taken_by BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_deliveries_line ON punctual_deliveries (state, channel, id);
CREATE INDEX punctual_deliveries_state ON punctual_deliveries (state, id);
CREATE INDEX punctual_deliveries_channel ON punctual_deliveries (channel, id);
CREATE INDEX punctual_deliveries_alert ON punctual_deliveries (alert_id, id) WHERE alert_id IS NOT NULL;

-- When somebody looked for what is wrong, up to when, and when there is something to do again.
CREATE TABLE punctual_notify_state (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  looked_at INTEGER NOT NULL DEFAULT 0,
  looked_through INTEGER NOT NULL DEFAULT 0,
  again_at INTEGER
) STRICT;
INSERT INTO punctual_notify_state (id) VALUES (1);
