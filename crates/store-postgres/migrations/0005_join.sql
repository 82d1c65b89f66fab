-- Job keys, jobs made inside the caller's own transaction, and the mark on schedules whose target no live node offers.
--
-- Differs from SQLite: what enqueueing does is a function of the database as well, so that any driver and any language
-- can call it inside a transaction of its own.

ALTER TABLE punctual_internal.jobs ADD COLUMN job_key text COLLATE "C";
ALTER TABLE punctual_internal.jobs ADD COLUMN job_key_mode text COLLATE "C"
  CHECK (job_key_mode IN ('replace', 'preserve_run_at', 'unsafe_dedupe'));

-- The job that was made last under a key, and the row to lock for everybody who makes one. Its retries are found from
-- it, so that neither claim nor finish writes here, and a row whose job has ended means that the key is free.
CREATE TABLE punctual_internal.job_keys (
  key text COLLATE "C" NOT NULL PRIMARY KEY,
  job_id uuid
);
CREATE INDEX job_keys_job ON punctual_internal.job_keys (job_id);

-- What a node must offer to run a target, as `Target::job_type` says.
CREATE FUNCTION punctual_internal.job_type(target json) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
  SELECT CASE $1 ->> 'kind'
    WHEN 'sql' THEN 'sql:' || ($1 ->> 'connection')
    WHEN 'task' THEN 'task:' || ($1 ->> 'name')
    ELSE $1 ->> 'kind' END
$$;

ALTER TABLE punctual_internal.schedules ADD COLUMN job_type text COLLATE "C"
  GENERATED ALWAYS AS (punctual_internal.job_type(target)) STORED;
CREATE INDEX schedules_job_type ON punctual_internal.schedules (job_type, id) WHERE deleted_at IS NULL;

ALTER TABLE punctual_internal.schedule_state ADD COLUMN no_executor_since timestamptz;
CREATE INDEX schedule_state_no_executor ON punctual_internal.schedule_state (schedule_id)
  WHERE no_executor_since IS NOT NULL;

-- One job that is to be made, with everything that was left out filled in.
CREATE TYPE punctual_internal.wanted_job AS (
  n bigint, id uuid, queue text, job_type text, priority integer, target json, input json, run_at timestamptz,
  serial_key text, job_key text, job_key_mode text, tags json, retry json, timeout_us bigint, template_id uuid,
  grant_id uuid, trigger text, trigger_detail text, trace_context text, owner text, made boolean
);

-- Reads the jobs of a document: an array of objects whose only required field is `target`. Documents within it are
-- kept byte for byte. A `timeout_us` of null means none; left out, it is an hour.
CREATE FUNCTION punctual_internal.read_jobs(jobs json, at timestamptz) RETURNS SETOF punctual_internal.wanted_job
LANGUAGE sql VOLATILE SET search_path = '' AS $$
  WITH drawn AS MATERIALIZED (
    -- 60 random bits to count on from, so that the ids of one batch keep its order.
    SELECT ('x0' || right(replace(gen_random_uuid()::text, '-', ''), 15))::bit(64)::bigint AS base,
           punctual_internal.id_prefix($2) AS prefix
  )
  SELECT
    e.n,
    (drawn.prefix || translate(left(t.tail, 1), '0123', '89ab') || substr(t.tail, 2))::uuid,
    coalesce(e.job ->> 'queue', 'default'),
    punctual_internal.job_type(e.job -> 'target'),
    coalesce((e.job ->> 'priority')::integer, 0),
    e.job -> 'target',
    coalesce(e.job -> 'input', '{}'),
    (e.job ->> 'run_at')::timestamptz,
    e.job ->> 'serial_key',
    e.job ->> 'job_key',
    CASE WHEN e.job ->> 'job_key' IS NOT NULL THEN coalesce(e.job ->> 'job_key_mode', 'replace') END,
    CASE WHEN e.job ->> 'tags' IS NOT NULL THEN e.job -> 'tags' END,
    coalesce(e.job -> 'retry', '{}'),
    CASE WHEN e.job -> 'timeout_us' IS NULL THEN 3600000000 ELSE (e.job ->> 'timeout_us')::bigint END,
    (e.job ->> 'template_id')::uuid,
    (e.job ->> 'grant_id')::uuid,
    coalesce(e.job ->> 'trigger', 'api'),
    e.job ->> 'trigger_detail',
    e.job ->> 'trace_context',
    e.job ->> 'owner',
    true
  FROM drawn
  CROSS JOIN json_array_elements($1) WITH ORDINALITY AS e (job, n)
  CROSS JOIN LATERAL (SELECT lpad(to_hex(drawn.base + e.n), 16, '0')) AS t (tail)
  ORDER BY e.n
$$;

-- The last job of the chain that begins with a job: itself, or its latest retry.
CREATE FUNCTION punctual_internal.chain_end(job uuid) RETURNS uuid
LANGUAGE sql STABLE SET search_path = '' AS $$
  WITH RECURSIVE chain AS (
    SELECT $1 AS job_id, 1 AS length
    UNION ALL
    SELECT r.job_id, c.length + 1 FROM chain AS c JOIN punctual_internal.retries AS r ON r.retry_of = c.job_id
  )
  SELECT job_id FROM chain ORDER BY length DESC LIMIT 1
$$;

-- Locks serial keys in order, and makes those that are not there. One may be forgotten as unused at this very moment;
-- then it is made again.
CREATE FUNCTION punctual_internal.lock_serial_keys(keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
  locked bigint;
BEGIN
  LOOP
    INSERT INTO punctual_internal.serial_keys (key) SELECT DISTINCT w.key FROM unnest(keys) AS w (key) ORDER BY w.key
    ON CONFLICT (key) DO NOTHING;
    SELECT count(*) INTO locked FROM (
      SELECT 1 FROM punctual_internal.serial_keys AS k WHERE k.key = ANY (keys) ORDER BY k.key FOR UPDATE) AS l;
    EXIT WHEN locked = (SELECT count(DISTINCT w.key) FROM unnest(keys) AS w (key));
  END LOOP;
END
$$;

-- Lets exactly the head of each serial key be claimed. The same two statements as everywhere, and in this order: see
-- `hold_serial_others`. The caller has locked the keys.
CREATE FUNCTION punctual_internal.settle_serial_keys(keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  UPDATE punctual_internal.queue AS q SET ready = false
  FROM unnest(keys) AS w (key)
  CROSS JOIN LATERAL (
    SELECT h.job_id FROM punctual_internal.queue AS h WHERE h.serial_key = w.key
    ORDER BY h.priority DESC, h.position, h.created_at, h.job_id LIMIT 1
  ) AS head
  WHERE q.serial_key = w.key AND q.ready AND q.job_id <> head.job_id;
  UPDATE punctual_internal.queue AS q SET ready = true
  FROM unnest(keys) AS w (key)
  CROSS JOIN LATERAL (
    SELECT h.job_id FROM punctual_internal.queue AS h WHERE h.serial_key = w.key
    ORDER BY h.priority DESC, h.position, h.created_at, h.job_id LIMIT 1
  ) AS head
  WHERE q.job_id = head.job_id AND NOT q.ready
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.serial_key = w.key);
END
$$;

-- Closes what waits under the keys of jobs that are to be made, by the rule of `job_key::decide`, and says what is left
-- to be made. The caller has locked the keys.
CREATE FUNCTION punctual_internal.settle_job_keys(wanted punctual_internal.wanted_job[], at timestamptz)
RETURNS punctual_internal.wanted_job[] LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
  w punctual_internal.wanted_job;
  settled punctual_internal.wanted_job[] := '{}';
  holder uuid;
  planned timestamptz;
  waited boolean;
BEGIN
  FOREACH w IN ARRAY wanted LOOP
    holder := NULL;
    IF w.job_key IS NOT NULL THEN
      SELECT punctual_internal.chain_end(k.job_id) INTO holder FROM punctual_internal.job_keys AS k
      WHERE k.key = w.job_key AND k.job_id IS NOT NULL;
    END IF;
    IF holder IS NOT NULL AND w.job_key_mode = 'unsafe_dedupe' THEN
      IF NOT EXISTS (SELECT 1 FROM punctual_internal.runs AS r WHERE r.job_id = holder)
        AND EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = holder) THEN
        w.id := holder;
        w.made := false;
      END IF;
    ELSIF holder IS NOT NULL THEN
      -- Whoever is claiming it now is waited for; then it is not there any more, and runs.
      DELETE FROM punctual_internal.delayed AS d WHERE d.job_id = holder RETURNING d.run_at INTO planned;
      waited := FOUND;
      IF NOT waited THEN
        planned := NULL;
        DELETE FROM punctual_internal.queue AS q WHERE q.job_id = holder;
        waited := FOUND;
      END IF;
      IF waited THEN
        INSERT INTO punctual_internal.runs (job_id, finished_at, final, outcome, error_code)
        VALUES (holder, at, true, 'cancelled', 'replaced');
        DELETE FROM punctual_internal.schedule_live AS v USING punctual_internal.jobs AS j
        WHERE j.id = holder AND v.schedule_id = j.schedule_id AND v.job_id = holder;
        IF w.job_key_mode = 'preserve_run_at' THEN
          w.run_at := planned;
        END IF;
      END IF;
    END IF;
    settled := settled || w;
  END LOOP;
  RETURN settled;
END
$$;

-- Makes jobs inside the caller's own transaction, all or none, in the order given, and tells idle nodes at its commit.
-- The rules are those of the store's `enqueue_jobs`. The answer is the ids, in the same order.
CREATE FUNCTION punctual_internal.enqueue(jobs json, at timestamptz DEFAULT now(), tell boolean DEFAULT true)
RETURNS SETOF uuid LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
  wanted punctual_internal.wanted_job[];
  keys text[];
  serials text[];
  locked bigint;
BEGIN
  SELECT array_agg(w ORDER BY w.n) INTO wanted FROM punctual_internal.read_jobs(jobs, at) AS w;
  IF wanted IS NULL THEN
    RETURN;
  END IF;
  SELECT array_agg(w.job_key) INTO keys FROM unnest(wanted) AS w WHERE w.job_key IS NOT NULL;
  IF cardinality(keys) <> (SELECT count(DISTINCT k) FROM unnest(keys) AS k) THEN
    RAISE EXCEPTION 'punctual: a job key stands in this batch twice'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Send one job for each key.';
  END IF;

  INSERT INTO punctual_internal.queues (name, created_at)
  SELECT DISTINCT w.queue, at FROM unnest(wanted) AS w
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.queues AS q WHERE q.name = w.queue)
  ORDER BY w.queue ON CONFLICT (name) DO NOTHING;
  INSERT INTO punctual_internal.lanes (queue, job_type)
  SELECT DISTINCT w.queue, w.job_type FROM unnest(wanted) AS w
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.lanes AS l WHERE l.queue = w.queue AND l.job_type = w.job_type
                    AND l.tags = '{}')
  ORDER BY w.queue, w.job_type ON CONFLICT (queue, job_type, tags) DO NOTHING;

  -- Job keys first, then serial keys, those of the jobs that are to be replaced among them; then the jobs themselves.
  WHILE keys IS NOT NULL LOOP
    INSERT INTO punctual_internal.job_keys (key) SELECT k FROM unnest(keys) AS k ORDER BY k
    ON CONFLICT (key) DO NOTHING;
    SELECT count(*) INTO locked FROM (
      SELECT 1 FROM punctual_internal.job_keys AS k WHERE k.key = ANY (keys) ORDER BY k.key FOR UPDATE) AS l;
    EXIT WHEN locked = cardinality(keys);
  END LOOP;
  SELECT array_agg(DISTINCT s.key) INTO serials FROM (
    SELECT w.serial_key FROM unnest(wanted) AS w
    UNION ALL
    SELECT j.serial_key FROM punctual_internal.job_keys AS k
    JOIN punctual_internal.jobs AS j ON j.id = punctual_internal.chain_end(k.job_id)
    WHERE k.key = ANY (keys)
  ) AS s (key) WHERE s.key IS NOT NULL;
  IF serials IS NOT NULL THEN
    PERFORM punctual_internal.lock_serial_keys(serials);
  END IF;
  IF keys IS NOT NULL THEN
    wanted := punctual_internal.settle_job_keys(wanted, at);
  END IF;

  WITH making AS MATERIALIZED (
    SELECT l.id AS lane_id, w.* FROM unnest(wanted) AS w
    JOIN punctual_internal.lanes AS l ON l.queue = w.queue AND l.job_type = w.job_type AND l.tags = '{}'
    WHERE w.made
  ), made AS (
    INSERT INTO punctual_internal.jobs (
      id, created_at, lane_id, priority, target, input, run_at, serial_key, job_key, job_key_mode, tags, retry, timeout_us,
      template_id, grant_id, trigger, trigger_detail, trace_context, owner)
    SELECT id, at, lane_id, priority, target, input, run_at, serial_key, job_key, job_key_mode, tags, retry, timeout_us,
           template_id, grant_id, trigger, trigger_detail, trace_context, owner
    FROM making
  ), later AS (
    INSERT INTO punctual_internal.delayed (job_id, run_at) SELECT id, run_at FROM making WHERE run_at > at
  ), queued AS (
    INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key,
                                         tags)
    SELECT id, lane_id, priority, serial_key IS NULL, nextval('punctual_internal.positions') * 1048576, at, at,
           serial_key, tags
    FROM (SELECT * FROM making WHERE (run_at > at) IS NOT TRUE ORDER BY n) AS m
  )
  UPDATE punctual_internal.job_keys AS k SET job_id = m.id FROM making AS m WHERE k.key = m.job_key;

  IF serials IS NOT NULL THEN
    PERFORM punctual_internal.settle_serial_keys(serials);
  END IF;
  -- Told whether anybody waits now or not: who begins to wait before the commit would not see these jobs, and what the
  -- sequences `waits` and `told` say would outlive a rollback.
  IF tell THEN
    PERFORM pg_catalog.pg_notify('punctual_wake', '');
  END IF;
  RETURN QUERY SELECT w.id FROM unnest(wanted) AS w ORDER BY w.n;
END
$$;
