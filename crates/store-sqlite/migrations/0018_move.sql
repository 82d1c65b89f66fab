-- Freezing a store, and carrying everything it holds into another one.

-- The freeze that is in force, if there is one. What refuses are triggers, which exist only meanwhile.
CREATE TABLE punctual_frozen (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  level TEXT NOT NULL CHECK (level IN ('starts', 'writes')),
  why TEXT NOT NULL,
  since INTEGER NOT NULL
) STRICT;

-- This store's part in a move: the first row. The second is how it came here itself, while it leaves again, so that this
-- stands again if it stays. `writing` is 1 only inside the transaction that takes rows in, so that the triggers let that
-- one through, and nobody else ever sees it.
CREATE TABLE punctual_moves (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id IN (1, 2)),
  move_id BLOB NOT NULL CHECK (length(move_id) = 16),
  stage TEXT NOT NULL CHECK (stage IN ('leaving', 'staying', 'left', 'arriving', 'arrived', 'abandoned')),
  other TEXT NOT NULL,
  began_at INTEGER NOT NULL,
  writing INTEGER NOT NULL DEFAULT 0 CHECK (writing IN (0, 1))
) STRICT;

-- How far each table has come: written in the transaction of the rows themselves.
CREATE TABLE punctual_move_progress (
  name TEXT NOT NULL PRIMARY KEY,
  after TEXT,
  rows INTEGER NOT NULL,
  sum TEXT NOT NULL,
  whole INTEGER NOT NULL CHECK (whole IN (0, 1))
) STRICT, WITHOUT ROWID;
