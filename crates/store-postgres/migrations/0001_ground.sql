-- The ground: two insert-only ledgers, small hot tables, schedules with their slot ledger, nodes and reservations.
--
-- The same tables as in SQLite, without the prefix: a schema keeps them apart from the application's own. Times are
-- `timestamptz` with microseconds; text compares bytewise (`COLLATE "C"`); documents are `json`, never `jsonb`, because
-- they must come back byte for byte. Closed sets are CHECKed, so that a hand-made UPDATE cannot write what no reader
-- expects. What differs from SQLite: `jobs`, `runs` and `slots` are partitioned by time, and no foreign key points to
-- a partitioned table or is checked on the hot path; `punctual doctor` checks those.

CREATE SCHEMA IF NOT EXISTS punctual;

CREATE TABLE punctual_internal.queues (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  paused boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL
);

-- The jobs of one queue that have one job type and the same limited tags, in a sorted list. Claiming looks at the head
-- of each lane it may take from, so it never reads past a job that its node cannot run, whose queue is paused or that
-- a limit keeps back.
CREATE TABLE punctual_internal.lanes (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue text COLLATE "C" NOT NULL REFERENCES punctual_internal.queues (name),
  job_type text COLLATE "C" NOT NULL,
  tags text[] COLLATE "C" NOT NULL DEFAULT '{}',
  -- The limits that count its jobs.
  limits bigint[] NOT NULL DEFAULT '{}',
  UNIQUE (queue, job_type, tags)
);

-- Positions are handed out from here, so that an insert asks for no max().
CREATE SEQUENCE punctual_internal.positions AS bigint;

CREATE TABLE punctual_internal.templates (
  id uuid NOT NULL PRIMARY KEY,
  name text COLLATE "C" NOT NULL UNIQUE,
  job json NOT NULL,
  created_at timestamptz NOT NULL
);

CREATE TABLE punctual_internal.schedules (
  id uuid NOT NULL PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  description text COLLATE "C" NOT NULL DEFAULT '',
  labels json NOT NULL DEFAULT '{}',
  cron text COLLATE "C",
  every_us bigint,
  at timestamptz,
  timezone text COLLATE "C" NOT NULL DEFAULT 'UTC',
  dst_gap text COLLATE "C" NOT NULL DEFAULT 'next' CHECK (dst_gap IN ('next', 'skip')),
  dst_overlap text COLLATE "C" NOT NULL DEFAULT 'first' CHECK (dst_overlap IN ('first', 'both', 'second')),
  starts_at timestamptz,
  ends_at timestamptz,
  calendar text COLLATE "C",
  target json NOT NULL,
  input json NOT NULL DEFAULT '{}',
  template_id uuid,
  queue text COLLATE "C" NOT NULL DEFAULT 'default',
  priority integer NOT NULL DEFAULT 0,
  serial boolean NOT NULL DEFAULT false,
  retry json NOT NULL DEFAULT '{}',
  timeout_us bigint,
  missed json NOT NULL DEFAULT '{"policy":"once"}',
  overlap text COLLATE "C" NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'forbid', 'replace', 'queue_one')),
  max_concurrent_runs bigint CHECK (max_concurrent_runs > 0),
  jitter_us bigint NOT NULL DEFAULT 0 CHECK (jitter_us >= 0),
  depends_on uuid,
  depends_within_us bigint,
  grant_id uuid,
  owner text COLLATE "C",
  source text COLLATE "C" NOT NULL DEFAULT 'api' CHECK (source IN ('api', 'code', 'file', 'sql')),
  version bigint NOT NULL DEFAULT 1,
  seed text COLLATE "C" NOT NULL,
  anchor_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz,
  CHECK (num_nonnulls(cron, every_us, at) = 1)
);
CREATE UNIQUE INDEX schedules_name ON punctual_internal.schedules (name) WHERE deleted_at IS NULL;

-- What a schedule was before each edit, so that the past can be explained by the rules that were in force.
CREATE TABLE punctual_internal.schedule_versions (
  schedule_id uuid NOT NULL REFERENCES punctual_internal.schedules (id),
  version bigint NOT NULL,
  replaced_at timestamptz NOT NULL,
  definition json NOT NULL,
  PRIMARY KEY (schedule_id, version)
);

-- Narrow, and written by fire (and by pause, resume, reschedule, edit), never by finish.
CREATE TABLE punctual_internal.schedule_state (
  schedule_id uuid NOT NULL PRIMARY KEY REFERENCES punctual_internal.schedules (id),
  enabled boolean NOT NULL DEFAULT true,
  next_slot_at timestamptz,
  next_run_at timestamptz,
  last_slot_at timestamptz,
  last_enqueued_at timestamptz,
  last_job_id uuid,
  fired_through timestamptz,
  exhausted_at timestamptz,
  problem text COLLATE "C",
  paused_at timestamptz,
  paused_by text COLLATE "C",
  pause_note text COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX schedule_state_due ON punctual_internal.schedule_state (next_run_at, schedule_id)
  WHERE enabled AND next_run_at IS NOT NULL;
CREATE INDEX schedule_state_unplanned ON punctual_internal.schedule_state (schedule_id)
  WHERE enabled AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL;

-- Written by finish alone, so that fire and finish never change the same row.
CREATE TABLE punctual_internal.schedule_results (
  schedule_id uuid NOT NULL PRIMARY KEY REFERENCES punctual_internal.schedules (id),
  last_run_at timestamptz,
  last_outcome text COLLATE "C" CHECK (last_outcome IN ('completed', 'failed', 'skipped', 'cancelled')),
  last_success_at timestamptz,
  consecutive_failures bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- Partitioned by the time in the id, which is the database's own. The DEFAULT partition takes what lies outside all
-- others, so that no insert ever fails for want of a partition, and what outlives the partition it was born in: that
-- is why it is called `jobs_kept`, and why every look-up finds both.
CREATE TABLE punctual_internal.jobs (
  id uuid NOT NULL PRIMARY KEY,
  created_at timestamptz NOT NULL,
  lane_id bigint NOT NULL,
  priority integer NOT NULL,
  attempt integer NOT NULL DEFAULT 1 CHECK (attempt >= 1),
  failures integer NOT NULL DEFAULT 0,
  interruptions integer NOT NULL DEFAULT 0,
  target json NOT NULL,
  input json NOT NULL,
  run_at timestamptz,
  serial_key text COLLATE "C",
  tags json,
  retry json NOT NULL,
  timeout_us bigint,
  template_id uuid,
  grant_id uuid,
  trigger text COLLATE "C" NOT NULL
    CHECK (trigger IN ('schedule', 'catchup', 'backfill', 'manual', 'api', 'retry', 'flow', 'dependency')),
  trigger_detail text COLLATE "C",
  trace_context text COLLATE "C",
  schedule_id uuid,
  slot_at timestamptz,
  retry_of uuid,
  -- Null for the first job of a chain, which is almost every job.
  root_job_id uuid,
  chain_began_at timestamptz,
  CHECK ((retry_of IS NULL) = (root_job_id IS NULL)),
  CHECK ((retry_of IS NULL) = (chain_began_at IS NULL))
) PARTITION BY RANGE (id);
CREATE INDEX jobs_schedule ON punctual_internal.jobs (schedule_id, id) WHERE schedule_id IS NOT NULL;
CREATE TABLE punctual_internal.jobs_kept PARTITION OF punctual_internal.jobs DEFAULT;

CREATE TABLE punctual_internal.delayed (
  job_id uuid NOT NULL PRIMARY KEY,
  run_at timestamptz
);
CREATE INDEX delayed_due ON punctual_internal.delayed (run_at, job_id) WHERE run_at IS NOT NULL;

CREATE TABLE punctual_internal.queue (
  job_id uuid NOT NULL PRIMARY KEY,
  lane_id bigint NOT NULL,
  priority integer NOT NULL,
  ready boolean NOT NULL,
  position bigint NOT NULL,
  created_at timestamptz NOT NULL,
  queued_at timestamptz NOT NULL,
  serial_key text COLLATE "C",
  schedule_id uuid,
  -- Null for jobs without tags, which are almost all; what has some is put into another lane by a trigger.
  tags json
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX queue_ready ON punctual_internal.queue (lane_id, priority DESC, position, created_at, job_id) WHERE ready;
CREATE INDEX queue_held ON punctual_internal.queue (lane_id, priority DESC, position, created_at, job_id)
  WHERE NOT ready;
CREATE INDEX queue_serial ON punctual_internal.queue (serial_key, priority DESC, position, created_at, job_id)
  WHERE serial_key IS NOT NULL;
-- At most one job of a key may be claimed; the database says so too.
CREATE UNIQUE INDEX queue_serial_head ON punctual_internal.queue (serial_key) WHERE serial_key IS NOT NULL AND ready;

-- A row to lock for everybody who changes which job of a key is the head. SQLite has one writer and needs none.
CREATE TABLE punctual_internal.serial_keys (
  key text COLLATE "C" NOT NULL PRIMARY KEY
);

-- A flow runs without a node: its steps are jobs of their own.
CREATE TABLE punctual_internal.running (
  job_id uuid NOT NULL PRIMARY KEY,
  node_id uuid,
  lease_id uuid,
  claim_id uuid NOT NULL,
  lane_id bigint NOT NULL,
  priority integer NOT NULL,
  position bigint NOT NULL,
  created_at timestamptz NOT NULL,
  queued_at timestamptz NOT NULL,
  started_at timestamptz NOT NULL,
  serial_key text COLLATE "C",
  schedule_id uuid,
  cancel_requested_at timestamptz,
  cancel_code text COLLATE "C" CHECK (cancel_code IN ('cancelled', 'replaced')),
  -- Whether there were limits when it was claimed; only these are counted, and only these pay for the index.
  limited boolean NOT NULL DEFAULT false,
  CHECK ((node_id IS NULL) = (lease_id IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX running_lease ON punctual_internal.running (lease_id, job_id);
CREATE INDEX running_limited ON punctual_internal.running (lane_id, node_id) WHERE limited;
-- Serial keys hold even if the code were wrong: two running jobs with one key cannot be stored.
CREATE UNIQUE INDEX running_serial ON punctual_internal.running (serial_key) WHERE serial_key IS NOT NULL;

CREATE TABLE punctual_internal.runs (
  job_id uuid NOT NULL PRIMARY KEY,
  node_id uuid,
  started_at timestamptz,
  finished_at timestamptz NOT NULL,
  final boolean NOT NULL,
  outcome text COLLATE "C" NOT NULL CHECK (outcome IN ('completed', 'failed', 'skipped', 'cancelled')),
  error_code text COLLATE "C" CHECK (error_code IN (
    'grant_missing', 'grant_revoked', 'grant_expired', 'scope_denied', 'no_executor', 'target_rejected',
    'target_error', 'bad_output', 'output_too_large', 'timeout', 'node_lost', 'interrupted', 'cancelled', 'replaced',
    'dependency_failed', 'internal')),
  error text COLLATE "C",
  exit_code integer,
  output json,
  log_ref text COLLATE "C",
  CHECK (outcome <> 'completed' OR error_code IS NULL),
  CHECK (outcome <> 'failed' OR error_code IS NOT NULL)
) PARTITION BY RANGE (job_id);
CREATE TABLE punctual_internal.runs_kept PARTITION OF punctual_internal.runs DEFAULT;

-- One retry for each failed job, whoever makes it; outlives the retry itself, so that none is made twice.
CREATE TABLE punctual_internal.retries (
  retry_of uuid NOT NULL PRIMARY KEY,
  job_id uuid NOT NULL
);

-- Jobs of a schedule that are alive, retries included: what `overlap` and `max_concurrent_runs` look at.
CREATE TABLE punctual_internal.schedule_live (
  schedule_id uuid NOT NULL,
  job_id uuid NOT NULL,
  PRIMARY KEY (schedule_id, job_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE punctual_internal.slots (
  schedule_id uuid NOT NULL,
  slot_at timestamptz NOT NULL,
  through timestamptz NOT NULL,
  count bigint NOT NULL CHECK (count >= 1),
  decided_at timestamptz NOT NULL,
  late_ms bigint NOT NULL,
  schedule_version bigint NOT NULL,
  job_id uuid,
  node_id uuid,
  decision text COLLATE "C" NOT NULL CHECK (decision IN ('fired', 'skipped', 'missed')),
  reason text COLLATE "C" NOT NULL CHECK (reason IN (
    'on_time', 'catchup', 'backfill', 'overlap', 'max_concurrent_runs', 'dependency', 'calendar', 'paused',
    'rescheduled', 'too_late', 'superseded', 'over_limit', 'edited')),
  PRIMARY KEY (schedule_id, slot_at),
  CHECK ((decision = 'fired') = (job_id IS NOT NULL)),
  CHECK (through >= slot_at)
) PARTITION BY RANGE (slot_at);
CREATE TABLE punctual_internal.slots_kept PARTITION OF punctual_internal.slots DEFAULT;

CREATE TABLE punctual_internal.artifacts (
  job_id uuid NOT NULL,
  number bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  location text COLLATE "C" NOT NULL,
  size_bytes bigint NOT NULL,
  sha256 text COLLATE "C" NOT NULL,
  PRIMARY KEY (job_id, number)
);

CREATE TABLE punctual_internal.nodes (
  id uuid NOT NULL PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  offers json NOT NULL,
  started_at timestamptz NOT NULL,
  left_at timestamptz,
  lost_at timestamptz
);

-- Heartbeats: nothing but the counter changes, in a page with room, so that every beat is a HOT update.
CREATE TABLE punctual_internal.leases (
  node_id uuid NOT NULL PRIMARY KEY REFERENCES punctual_internal.nodes (id),
  lease_id uuid NOT NULL UNIQUE,
  counter bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200);

-- Who waits for work, so that nobody is told of it in vain: a claim that gets less than it asked for counts `waits` on;
-- whoever makes work and finds it ahead of `told` sets `told` to it and sends one notification. Sequences, because
-- they change at once and for everybody: no row is locked until a commit, and no dead version is left behind.
CREATE SEQUENCE punctual_internal.waits AS bigint;
CREATE SEQUENCE punctual_internal.told AS bigint;
SELECT setval('punctual_internal.waits', 1), setval('punctual_internal.told', 1);

CREATE TABLE punctual_internal.reservations (
  id uuid NOT NULL PRIMARY KEY,
  queue text COLLATE "C" NOT NULL REFERENCES punctual_internal.queues (name),
  holder text COLLATE "C" NOT NULL,
  reserved_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  ended_at timestamptz
);
CREATE UNIQUE INDEX reservations_active ON punctual_internal.reservations (queue) WHERE ended_at IS NULL;

-- How far retention may reach: the ledgers refuse every DELETE above these marks.
CREATE TABLE punctual_internal.retention (
  ledger text COLLATE "C" NOT NULL PRIMARY KEY CHECK (ledger IN ('runs', 'slots')),
  before timestamptz NOT NULL
);
INSERT INTO punctual_internal.retention (ledger, before) VALUES ('runs', 'epoch'), ('slots', 'epoch');

-- The first half of an id: 48 bits of milliseconds, the version, 12 bits of the microseconds within. The store makes
-- the other half, so that a job is made in one round trip with an id that has the database's own time. Without a FROM,
-- because then the planner puts it into the statement; calling it costs more than making a job.
CREATE FUNCTION punctual_internal.id_prefix(at timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT lpad(to_hex(greatest((extract(epoch FROM $1) * 1000000)::bigint, 0) / 1000), 12, '0')
    || to_hex(28672 + greatest((extract(epoch FROM $1) * 1000000)::bigint, 0) % 1000 * 4)
$$;

-- What the ledgers refuse, in the database itself: row by row, so that a partition is as safe as the whole, and
-- without any cost to an INSERT. Against TRUNCATE, which knows no rows, every partition has a trigger of its own.
CREATE FUNCTION punctual_internal.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  RAISE EXCEPTION 'punctual: %', TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END
$$;

CREATE FUNCTION punctual_internal.refuse_young_job() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF OLD.created_at >= (SELECT before FROM punctual_internal.retention WHERE ledger = 'runs') THEN
    RAISE EXCEPTION 'punctual: jobs are deleted by retention only' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE FUNCTION punctual_internal.refuse_young_run() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF OLD.finished_at >= (SELECT before FROM punctual_internal.retention WHERE ledger = 'runs') THEN
    RAISE EXCEPTION 'punctual: runs are deleted by retention only' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE FUNCTION punctual_internal.refuse_needed_slot() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF OLD.through >= (SELECT before FROM punctual_internal.retention WHERE ledger = 'slots')
    OR NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_state AS state
                   WHERE state.schedule_id = OLD.schedule_id AND state.fired_through >= OLD.through) THEN
    RAISE EXCEPTION 'punctual: slots are deleted by retention only, and only below fired_through'
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE FUNCTION punctual_internal.refuse_needed_artifact() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM punctual_internal.runs WHERE job_id = OLD.job_id)
    OR EXISTS (SELECT 1 FROM punctual_internal.running WHERE job_id = OLD.job_id) THEN
    RAISE EXCEPTION 'punctual: artifacts are append-only' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE TRIGGER jobs_never_change BEFORE UPDATE ON punctual_internal.jobs FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('a job is immutable; edit it by replacing it');
CREATE TRIGGER jobs_go_with_retention BEFORE DELETE ON punctual_internal.jobs FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_young_job();
CREATE TRIGGER jobs_are_not_truncated BEFORE TRUNCATE ON punctual_internal.jobs
  EXECUTE FUNCTION punctual_internal.refuse('jobs are deleted by retention only');
CREATE TRIGGER jobs_are_not_truncated BEFORE TRUNCATE ON punctual_internal.jobs_kept
  EXECUTE FUNCTION punctual_internal.refuse('jobs are deleted by retention only');
CREATE TRIGGER runs_never_change BEFORE UPDATE ON punctual_internal.runs FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('a run is immutable once it has ended');
CREATE TRIGGER runs_go_with_retention BEFORE DELETE ON punctual_internal.runs FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_young_run();
CREATE TRIGGER runs_are_not_truncated BEFORE TRUNCATE ON punctual_internal.runs
  EXECUTE FUNCTION punctual_internal.refuse('runs are deleted by retention only');
CREATE TRIGGER runs_are_not_truncated BEFORE TRUNCATE ON punctual_internal.runs_kept
  EXECUTE FUNCTION punctual_internal.refuse('runs are deleted by retention only');
CREATE TRIGGER slots_never_change BEFORE UPDATE ON punctual_internal.slots FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('the slot ledger is insert-only');
CREATE TRIGGER slots_go_with_retention BEFORE DELETE ON punctual_internal.slots FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_needed_slot();
CREATE TRIGGER slots_are_not_truncated BEFORE TRUNCATE ON punctual_internal.slots
  EXECUTE FUNCTION punctual_internal.refuse('slots are deleted by retention only');
CREATE TRIGGER slots_are_not_truncated BEFORE TRUNCATE ON punctual_internal.slots_kept
  EXECUTE FUNCTION punctual_internal.refuse('slots are deleted by retention only');
CREATE TRIGGER artifacts_never_change BEFORE UPDATE ON punctual_internal.artifacts FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('artifacts are append-only');
CREATE TRIGGER artifacts_go_with_their_run BEFORE DELETE ON punctual_internal.artifacts FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_needed_artifact();
CREATE TRIGGER artifacts_are_not_truncated BEFORE TRUNCATE ON punctual_internal.artifacts
  EXECUTE FUNCTION punctual_internal.refuse('artifacts are append-only');
CREATE TRIGGER fired_through_never_goes_back BEFORE UPDATE OF fired_through ON punctual_internal.schedule_state
  FOR EACH ROW
  WHEN (OLD.fired_through IS NOT NULL AND coalesce(NEW.fired_through < OLD.fired_through, true))
  EXECUTE FUNCTION punctual_internal.refuse('fired_through never goes back');

-- The partitions there are, beside the DEFAULT ones. The catalogue knows them too, but not as times.
CREATE TABLE punctual_internal.partitions (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  parent text COLLATE "C" NOT NULL CHECK (parent IN ('jobs', 'runs', 'slots')),
  from_at timestamptz NOT NULL,
  to_at timestamptz NOT NULL,
  CHECK (from_at < to_at)
);

-- Makes the partitions of a time and of the two spans after it, and says until when there are some. Runs as the owner,
-- so that a worker's role may call it without being allowed to create tables. A span in which the DEFAULT partition
-- has rows already, or which is taken, is left to it: nothing is moved, and nothing is lost.
CREATE FUNCTION punctual_internal.make_partitions(at timestamptz, span interval) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
  ledger text;
  wide bigint := extract(epoch FROM span)::bigint;
  this timestamptz := to_timestamp(floor(extract(epoch FROM at) / wide) * wide);
  begins timestamptz;
  ends timestamptz;
  name text;
  lower text;
  upper text;
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock(7815263001);
  PERFORM pg_catalog.set_config('lock_timeout', '5s', true);
  FOREACH ledger IN ARRAY ARRAY['jobs', 'runs', 'slots'] LOOP
    SELECT greatest(max(p.to_at), this) INTO begins FROM punctual_internal.partitions AS p WHERE p.parent = ledger;
    WHILE begins < this + span * 3 LOOP
      ends := begins + span;
      name := ledger || '_' || to_char(begins AT TIME ZONE 'UTC', 'YYYYMMDD"t"HH24MISS');
      lower := CASE ledger WHEN 'slots' THEN begins::text ELSE punctual_internal.first_id(begins)::text END;
      upper := CASE ledger WHEN 'slots' THEN ends::text ELSE punctual_internal.first_id(ends)::text END;
      BEGIN
        EXECUTE format('CREATE TABLE punctual_internal.%I (LIKE punctual_internal.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name, ledger);
        EXECUTE format('ALTER TABLE punctual_internal.%I ATTACH PARTITION punctual_internal.%I FOR VALUES FROM (%L) TO (%L)', ledger, name, lower, upper);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON punctual_internal.%I EXECUTE FUNCTION punctual_internal.refuse(%L)',
                       ledger || '_are_not_truncated', name, ledger || ' are deleted by retention only');
        INSERT INTO punctual_internal.partitions (name, parent, from_at, to_at) VALUES (name, ledger, begins, ends);
      EXCEPTION WHEN check_violation OR duplicate_table OR invalid_object_definition THEN
        NULL;
      END;
      begins := ends;
    END LOOP;
  END LOOP;
  RETURN this + span * 3;
END
$$;

-- The smallest id of a time; every id made at or after it is larger.
CREATE FUNCTION punctual_internal.first_id(at timestamptz) RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT (substr(punctual_internal.id_prefix($1), 1, 12) || '00000000000000000000')::uuid
$$;

-- Forgets the jobs of whole partitions that lie before a mark, with their runs, and says how many. What must stay is
-- carried over first: jobs that have not ended, or not before the mark, and the past of chains that go on. At most
-- `carry` jobs are carried, because the ledgers are locked meanwhile; a partition of which more must stay is left to
-- be pruned row by row. Busy ledgers are left for the next time as well.
CREATE FUNCTION punctual_internal.drop_old_jobs(before timestamptz, carry bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
  jobs_part record;
  runs_part text;
  stays text := 'NOT EXISTS (SELECT 1 FROM punctual_internal.%2$I AS r WHERE r.job_id = j.id AND r.finished_at < $1)
    OR EXISTS (SELECT 1 FROM punctual_internal.retries AS t JOIN punctual_internal.jobs AS n ON n.id = t.job_id
               WHERE t.retry_of = j.id)';
  kept uuid[];
  many bigint;
  forgotten bigint := 0;
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock(7815263001);
  PERFORM pg_catalog.set_config('lock_timeout', '1s', true);
  FOR jobs_part IN
    SELECT p.name, p.from_at FROM punctual_internal.partitions AS p
    WHERE p.parent = 'jobs' AND p.to_at <= before ORDER BY p.from_at
  LOOP
    SELECT p.name INTO runs_part FROM punctual_internal.partitions AS p
    WHERE p.parent = 'runs' AND p.from_at = jobs_part.from_at;
    CONTINUE WHEN runs_part IS NULL;
    EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM punctual_internal.%1$I AS j WHERE ' || stays || ' LIMIT $2) AS s',
                   jobs_part.name, runs_part) INTO many USING before, carry + 1;
    CONTINUE WHEN many > carry;
    BEGIN
      EXECUTE format('ALTER TABLE punctual_internal.jobs DETACH PARTITION punctual_internal.%I', jobs_part.name);
      EXECUTE format('ALTER TABLE punctual_internal.runs DETACH PARTITION punctual_internal.%I', runs_part);
      -- Asked again under the lock. A retry in the partition itself is not seen by the first half any more.
      EXECUTE format('SELECT array_agg(j.id) FROM punctual_internal.%1$I AS j WHERE ' || stays
        || ' OR EXISTS (SELECT 1 FROM punctual_internal.retries AS t JOIN punctual_internal.%1$I AS n ON n.id = t.job_id
                        WHERE t.retry_of = j.id)', jobs_part.name, runs_part) INTO kept USING before;
      EXECUTE format('SELECT count(*) FROM punctual_internal.%I', jobs_part.name) INTO many;
      EXECUTE format('DELETE FROM punctual_internal.retries AS t USING punctual_internal.%I AS j
                      WHERE t.retry_of = j.id AND NOT (j.id = ANY ($1))', jobs_part.name) USING coalesce(kept, '{}');
      EXECUTE format('INSERT INTO punctual_internal.jobs SELECT * FROM punctual_internal.%I WHERE id = ANY ($1)',
                     jobs_part.name) USING kept;
      EXECUTE format('INSERT INTO punctual_internal.runs SELECT * FROM punctual_internal.%I WHERE job_id = ANY ($1)',
                     runs_part) USING kept;
      EXECUTE format('DELETE FROM punctual_internal.artifacts AS a USING punctual_internal.%I AS j
                      WHERE a.job_id = j.id AND NOT (j.id = ANY ($1))', jobs_part.name) USING coalesce(kept, '{}');
      EXECUTE format('DROP TABLE punctual_internal.%I, punctual_internal.%I', jobs_part.name, runs_part);
      DELETE FROM punctual_internal.partitions AS p WHERE p.name IN (jobs_part.name, runs_part);
      forgotten := forgotten + many - coalesce(cardinality(kept), 0);
    EXCEPTION WHEN lock_not_available THEN
      RETURN forgotten;
    END;
  END LOOP;
  RETURN forgotten;
END
$$;

-- The same for the slot ledger. What must stay are ranges that reach over the mark and rows above the watermark.
CREATE FUNCTION punctual_internal.drop_old_slots(before timestamptz, carry bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
  part record;
  stays text := 's.through >= $1 OR NOT EXISTS (
    SELECT 1 FROM punctual_internal.schedule_state AS t
    WHERE t.schedule_id = s.schedule_id AND t.fired_through >= s.through)';
  kept bigint;
  many bigint;
  forgotten bigint := 0;
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock(7815263001);
  PERFORM pg_catalog.set_config('lock_timeout', '1s', true);
  FOR part IN
    SELECT p.name FROM punctual_internal.partitions AS p
    WHERE p.parent = 'slots' AND p.to_at <= before ORDER BY p.from_at
  LOOP
    EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM punctual_internal.%I AS s WHERE ' || stays || ' LIMIT $2) AS s',
                   part.name) INTO kept USING before, carry + 1;
    CONTINUE WHEN kept > carry;
    BEGIN
      EXECUTE format('ALTER TABLE punctual_internal.slots DETACH PARTITION punctual_internal.%I', part.name);
      EXECUTE format('SELECT count(*) FROM punctual_internal.%I', part.name) INTO many;
      EXECUTE format('INSERT INTO punctual_internal.slots SELECT s.* FROM punctual_internal.%I AS s WHERE ' || stays,
                     part.name) USING before;
      GET DIAGNOSTICS kept = ROW_COUNT;
      EXECUTE format('DROP TABLE punctual_internal.%I', part.name);
      DELETE FROM punctual_internal.partitions AS p WHERE p.name = part.name;
      forgotten := forgotten + many - kept;
    EXCEPTION WHEN lock_not_available THEN
      RETURN forgotten;
    END;
  END LOOP;
  RETURN forgotten;
END
$$;

-- Nobody but the roles that are told so may call these.
REVOKE ALL ON FUNCTION punctual_internal.make_partitions(timestamptz, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION punctual_internal.drop_old_jobs(timestamptz, bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION punctual_internal.drop_old_slots(timestamptz, bigint) FROM PUBLIC;
