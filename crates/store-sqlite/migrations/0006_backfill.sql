-- Backfills: what was asked for, how far each has come, and which job was made for which slot.

CREATE TABLE punctual_backfills (
  id BLOB NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL,
  schedule_id BLOB NOT NULL REFERENCES punctual_schedules (id),
  from_at INTEGER NOT NULL,
  until_at INTEGER NOT NULL CHECK (until_at > from_at),
  priority INTEGER,
  per_minute INTEGER CHECK (per_minute > 0),
  asked_by TEXT,
  next_at INTEGER NOT NULL,
  made INTEGER NOT NULL DEFAULT 0,
  passed INTEGER NOT NULL DEFAULT 0,
  ended_at INTEGER,
  cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1)),
  -- When its next step may be taken.
  again_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_backfills_open ON punctual_backfills (again_at, id) WHERE ended_at IS NULL;
CREATE INDEX punctual_backfills_schedule ON punctual_backfills (schedule_id, id);

-- Beside the slot ledger and not in it: a slot is decided once, and a backfill comes when that was long ago.
CREATE TABLE punctual_backfill_slots (
  schedule_id BLOB NOT NULL REFERENCES punctual_schedules (id),
  slot_at INTEGER NOT NULL,
  job_id BLOB NOT NULL,
  backfill_id BLOB NOT NULL REFERENCES punctual_backfills (id),
  PRIMARY KEY (schedule_id, slot_at, job_id)
) STRICT, WITHOUT ROWID;
