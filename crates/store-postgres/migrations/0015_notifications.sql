-- Notifications: where people are told, of what, what is wrong at present, and what was sent.

-- The outbox takes two more kinds of news. `delivered_at` says when a notice was taken in by the rules; who does it
-- does all of it in one transaction, so that nobody has to hold one.
ALTER TABLE punctual_internal.outbox
  DROP COLUMN taken_by,
  DROP CONSTRAINT outbox_kind_check,
  ADD CONSTRAINT outbox_kind_check
    CHECK (kind IN ('run_failed', 'recovered', 'node_lost', 'slots_missed', 'clock_jumped'));
-- What happened before there were rules concerns nobody.
UPDATE punctual_internal.outbox SET delivered_at = created_at WHERE delivered_at IS NULL;

CREATE TABLE punctual_internal.channels (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  definition json NOT NULL,
  version bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

-- `state` is what a rule remembers from one pass to the next.
CREATE TABLE punctual_internal.rules (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  definition json NOT NULL,
  state json NOT NULL DEFAULT '{}',
  version bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE punctual_internal.alerts (
  id uuid NOT NULL PRIMARY KEY,
  rule text COLLATE "C" NOT NULL,
  code text COLLATE "C" NOT NULL,
  alert json NOT NULL,
  closed_at timestamptz
);
CREATE INDEX alerts_open ON punctual_internal.alerts (id) WHERE closed_at IS NULL;
CREATE INDEX alerts_rule ON punctual_internal.alerts (rule, id);
CREATE UNIQUE INDEX alerts_code ON punctual_internal.alerts (code);

-- One line for each channel, in order of ids. `taken_by` is the lease of the node that is sending; when that lease is
-- gone, another node sends it again under the same id.
CREATE TABLE punctual_internal.deliveries (
  id uuid NOT NULL PRIMARY KEY,
  channel text COLLATE "C" NOT NULL,
  alert_id uuid,
  occasion text COLLATE "C" NOT NULL,
  message json NOT NULL,
  state text COLLATE "C" NOT NULL CHECK (state IN ('waiting', 'arrived', 'failed', 'dropped')),
  created_at timestamptz NOT NULL,
  next_at timestamptz NOT NULL,
  tried_since timestamptz,
  tries bigint NOT NULL DEFAULT 0,
  attempts json NOT NULL DEFAULT '[]',
  ended_at timestamptz,
  taken_by uuid
);
CREATE INDEX deliveries_line ON punctual_internal.deliveries (state, channel, id);
CREATE INDEX deliveries_state ON punctual_internal.deliveries (state, id);
CREATE INDEX deliveries_channel ON punctual_internal.deliveries (channel, id);
CREATE INDEX deliveries_alert ON punctual_internal.deliveries (alert_id, id) WHERE alert_id IS NOT NULL;

-- When somebody looked for what is wrong, up to when, and when there is something to do again.
CREATE TABLE punctual_internal.notify_state (
  id smallint NOT NULL PRIMARY KEY CHECK (id = 1),
  looked_at timestamptz NOT NULL DEFAULT 'epoch',
  looked_through timestamptz NOT NULL DEFAULT 'epoch',
  again_at timestamptz
);
INSERT INTO punctual_internal.notify_state (id) VALUES (1);
