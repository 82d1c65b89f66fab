-- Policies: named calendars, pauses that end by themselves or begin after failures, and a cap on fires.

CREATE TABLE punctual_internal.calendars (
  name text COLLATE "C" PRIMARY KEY,
  description text COLLATE "C" NOT NULL DEFAULT '',
  rules json NOT NULL,
  version bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

ALTER TABLE punctual_internal.schedules
  ADD COLUMN burst_allowed boolean NOT NULL DEFAULT false,
  ADD COLUMN pause_after_failures bigint CHECK (pause_after_failures > 0);
CREATE INDEX schedules_calendar ON punctual_internal.schedules (calendar, name)
  WHERE calendar IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX schedules_burst ON punctual_internal.schedules (id) WHERE burst_allowed AND deleted_at IS NULL;

ALTER TABLE punctual_internal.schedule_state
  ADD COLUMN paused_until timestamptz,
  -- The failures in a row that were there when it last went on after a pause: they do not count towards the next one.
  ADD COLUMN forgiven_at timestamptz,
  ADD COLUMN forgiven_failures bigint;
CREATE INDEX schedule_state_resumes ON punctual_internal.schedule_state (paused_until, schedule_id)
  WHERE paused_until IS NOT NULL;

-- The reason in more words: which holiday, whose pause.
ALTER TABLE punctual_internal.slots ADD COLUMN note text COLLATE "C";

-- At most one row: the cap on fires and what fired in the last second. No row, no cap. Whoever fires locks it, so that
-- the cap holds across all nodes.
CREATE TABLE punctual_internal.fire_cap (
  id smallint PRIMARY KEY CHECK (id = 1),
  state json NOT NULL
);
