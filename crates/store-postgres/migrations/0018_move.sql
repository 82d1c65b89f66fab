-- Freezing a store, and carrying everything it holds into another one.

-- The freeze that is in force, if there is one. What refuses are triggers, which exist only meanwhile.
CREATE TABLE punctual_internal.frozen (
  id smallint NOT NULL PRIMARY KEY CHECK (id = 1),
  level text COLLATE "C" NOT NULL CHECK (level IN ('starts', 'writes')),
  why text COLLATE "C" NOT NULL,
  since timestamptz NOT NULL
);

-- This store's part in a move: the first row. The second is how it came here itself, while it leaves again, so that this
-- stands again if it stays. `writing` is true only inside the transaction that takes rows in, so that the triggers let
-- that one through, and nobody else ever sees it.
CREATE TABLE punctual_internal.moves (
  id smallint NOT NULL PRIMARY KEY CHECK (id IN (1, 2)),
  move_id uuid NOT NULL,
  stage text COLLATE "C" NOT NULL CHECK (stage IN ('leaving', 'staying', 'left', 'arriving', 'arrived', 'abandoned')),
  other text COLLATE "C" NOT NULL,
  began_at timestamptz NOT NULL,
  writing boolean NOT NULL DEFAULT false
);

-- How far each table has come: written in the transaction of the rows themselves.
CREATE TABLE punctual_internal.move_progress (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  after text COLLATE "C",
  rows bigint NOT NULL,
  sum text COLLATE "C" NOT NULL,
  whole boolean NOT NULL
);

-- Refuses whatever it is asked about. With the rights of the owner, because whoever is refused should learn why,
-- whatever he may read.
CREATE FUNCTION punctual_internal.refuse_frozen() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM punctual_internal.moves AS m WHERE m.writing) THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'PUF01',
    MESSAGE = coalesce((SELECT f.why FROM punctual_internal.frozen AS f), 'it is just being thawed; try again');
END
$$;

-- Freezes the store. Making a trigger waits for whoever is writing to its table, and binds everybody who comes later. A
-- row that a claim or a fire makes is looked at by itself; against all writing, whole statements are. SQLite has one
-- writer, and makes its triggers in the program.
CREATE FUNCTION punctual_internal.set_frozen(wanted text, reason text, at timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text;
  before punctual_internal.frozen;
BEGIN
  PERFORM pg_advisory_xact_lock(7815263005);
  SELECT * INTO before FROM punctual_internal.frozen;
  -- Whoever waits for a table lets nobody else write to it: better to give up, and to be asked again.
  PERFORM set_config('lock_timeout', '3s', true);
  IF wanted = 'starts' THEN
    PERFORM punctual_internal.set_thawed();
    CREATE TRIGGER frozen_starts BEFORE INSERT ON punctual_internal.running FOR EACH ROW
      WHEN (NEW.node_id IS NOT NULL) EXECUTE FUNCTION punctual_internal.refuse_frozen();
    CREATE TRIGGER frozen_starts BEFORE INSERT ON punctual_internal.slots FOR EACH ROW
      WHEN (NEW.decision = 'fired') EXECUTE FUNCTION punctual_internal.refuse_frozen();
  ELSE
    FOR name IN
      SELECT c.relname FROM pg_class AS c
      WHERE c.relnamespace = 'punctual_internal'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND c.relname NOT IN ('migrations', 'partitions', 'frozen', 'moves', 'move_progress')
        AND NOT EXISTS (SELECT 1 FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND t.tgname = 'frozen_writes')
      ORDER BY c.relname
    LOOP
      EXECUTE format('CREATE TRIGGER frozen_writes BEFORE INSERT OR UPDATE OR DELETE ON punctual_internal.%I
                      FOR EACH STATEMENT EXECUTE FUNCTION punctual_internal.refuse_frozen()', name);
    END LOOP;
  END IF;
  DELETE FROM punctual_internal.frozen;
  INSERT INTO punctual_internal.frozen (id, level, why, since)
  VALUES (1, wanted, reason, CASE WHEN before.level = wanted THEN before.since ELSE at END);
END
$$;

-- Lets everything go on.
CREATE FUNCTION punctual_internal.set_thawed() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found record;
BEGIN
  PERFORM pg_advisory_xact_lock(7815263005);
  PERFORM set_config('lock_timeout', '3s', true);
  FOR found IN
    SELECT c.relname, t.tgname FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'punctual_internal'::regnamespace AND t.tgname IN ('frozen_starts', 'frozen_writes')
      AND t.tgparentid = 0 ORDER BY c.relname
  LOOP
    EXECUTE format('DROP TRIGGER %I ON punctual_internal.%I', found.tgname, found.relname);
  END LOOP;
  DELETE FROM punctual_internal.frozen;
END
$$;

-- Only who owns the tables could use them; nobody else needs to see that they are there.
REVOKE ALL ON FUNCTION punctual_internal.set_frozen(text, text, timestamptz), punctual_internal.set_thawed() FROM PUBLIC;
