-- Backfills: what was asked for, how far each has come, and which job was made for which slot.

CREATE TABLE punctual_internal.backfills (
  id uuid PRIMARY KEY,
  created_at timestamptz NOT NULL,
  schedule_id uuid NOT NULL REFERENCES punctual_internal.schedules (id),
  from_at timestamptz NOT NULL,
  until_at timestamptz NOT NULL CHECK (until_at > from_at),
  priority integer,
  per_minute bigint CHECK (per_minute > 0),
  asked_by text COLLATE "C",
  next_at timestamptz NOT NULL,
  made bigint NOT NULL DEFAULT 0,
  passed bigint NOT NULL DEFAULT 0,
  ended_at timestamptz,
  cancelled boolean NOT NULL DEFAULT false,
  -- When its next step may be taken.
  again_at timestamptz NOT NULL
);
CREATE INDEX backfills_open ON punctual_internal.backfills (again_at, id) WHERE ended_at IS NULL;
CREATE INDEX backfills_schedule ON punctual_internal.backfills (schedule_id, id);

-- Beside the slot ledger and not in it: a slot is decided once, and a backfill comes when that was long ago.
CREATE TABLE punctual_internal.backfill_slots (
  schedule_id uuid NOT NULL REFERENCES punctual_internal.schedules (id),
  slot_at timestamptz NOT NULL,
  job_id uuid NOT NULL,
  backfill_id uuid NOT NULL REFERENCES punctual_internal.backfills (id),
  PRIMARY KEY (schedule_id, slot_at, job_id)
);
