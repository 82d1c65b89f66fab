-- Queue control: bulk operations and how far each has come.

CREATE TABLE punctual_internal.bulk_operations (
  id uuid PRIMARY KEY,
  created_at timestamptz NOT NULL,
  action text COLLATE "C" NOT NULL CHECK (action IN ('cancel', 'retry', 'reprioritise')),
  filter json NOT NULL,
  -- Whose jobs it is about; null for everybody's.
  owner text COLLATE "C",
  priority integer,
  asked_by text COLLATE "C",
  -- The state that is looked through, by its place among those that the action takes, and the last job looked at.
  cursor_state bigint NOT NULL DEFAULT 0 CHECK (cursor_state >= 0),
  cursor_after uuid NOT NULL,
  done bigint NOT NULL DEFAULT 0,
  passed bigint NOT NULL DEFAULT 0,
  -- When its last step was taken, so that several go on in turn.
  stepped_at timestamptz NOT NULL,
  ended_at timestamptz,
  cancelled boolean NOT NULL DEFAULT false,
  CHECK ((action = 'reprioritise') = (priority IS NOT NULL))
);
CREATE INDEX bulk_operations_open ON punctual_internal.bulk_operations (stepped_at, id) WHERE ended_at IS NULL;
CREATE INDEX bulk_operations_owner ON punctual_internal.bulk_operations (owner, id) WHERE owner IS NOT NULL;
