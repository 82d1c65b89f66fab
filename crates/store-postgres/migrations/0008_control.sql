-- Queue control: bulk operations and how far each has come; unique jobs; serial keys that are held by a failure; parameters of
-- templates; cron presets.

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

-- Which job was made last under a unique key, and until when it stands for others; and the row to lock for everybody who
-- makes one, in which case it may hold nothing yet.
CREATE TABLE punctual_internal.unique_keys (
  key text COLLATE "C" NOT NULL PRIMARY KEY,
  job_id uuid,
  until_at timestamptz
);
CREATE INDEX unique_keys_job ON punctual_internal.unique_keys (job_id);
CREATE INDEX unique_keys_until ON punctual_internal.unique_keys (until_at);

-- The state of a job, which is where its row is.
CREATE FUNCTION punctual_internal.job_state(job uuid) RETURNS text
LANGUAGE sql STABLE SET search_path = '' AS $$
  SELECT coalesce(
    (SELECT r.outcome FROM punctual_internal.runs AS r WHERE r.job_id = $1),
    (SELECT 'running' FROM punctual_internal.running AS g WHERE g.job_id = $1),
    (SELECT 'queued' FROM punctual_internal.queue AS q WHERE q.job_id = $1),
    (SELECT CASE WHEN d.run_at IS NULL THEN 'waiting' ELSE 'scheduled' END
     FROM punctual_internal.delayed AS d WHERE d.job_id = $1))
$$;

-- The job that stands for one that is to be made, by the rule of `Unique::is_taken`; null when it is to be made. The
-- caller has locked the key.
CREATE FUNCTION punctual_internal.unique_holder(job json, at timestamptz) RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = '' AS $$
  SELECT h.id FROM punctual_internal.unique_keys AS k
  CROSS JOIN LATERAL (SELECT punctual_internal.chain_end(k.job_id)) AS h (id)
  WHERE k.key = $1 ->> 'unique_key' AND k.until_at > $2
    AND punctual_internal.job_state(h.id) IN (SELECT json_array_elements_text($1 -> 'unique_states'))
$$;

-- Makes jobs as `enqueue` does, except those for which an earlier one stands. A job that is to be unique says so by
-- `unique_key`, `unique_us` (its period in microseconds) and `unique_states`. The answer is one row for each, in the
-- order given.
CREATE FUNCTION punctual_internal.enqueue_once(jobs json, at timestamptz DEFAULT now(), tell boolean DEFAULT true)
RETURNS TABLE (job_id uuid, is_new boolean) LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
  keys text[];
  locked bigint;
  holders uuid[];
  firsts bigint[];
  wanted json;
  made uuid[];
  answers uuid[] := '{}';
  taken integer;
  n integer;
BEGIN
  SELECT array_agg(DISTINCT e.job ->> 'unique_key') INTO keys FROM json_array_elements(jobs) AS e (job)
  WHERE e.job ->> 'unique_key' IS NOT NULL;
  IF keys IS NULL THEN
    RETURN QUERY SELECT m.id, true FROM punctual_internal.enqueue(jobs, at, tell) AS m (id);
    RETURN;
  END IF;
  -- A key may be forgotten as unused at this very moment; then it is made again.
  LOOP
    INSERT INTO punctual_internal.unique_keys (key) SELECT w.key FROM unnest(keys) AS w (key) ORDER BY w.key
    ON CONFLICT (key) DO NOTHING;
    SELECT count(*) INTO locked FROM (
      SELECT 1 FROM punctual_internal.unique_keys AS k WHERE k.key = ANY (keys) ORDER BY k.key FOR UPDATE) AS l;
    EXIT WHEN locked = cardinality(keys);
  END LOOP;
  -- For each job who stands for it: an earlier one, or the first of the batch with the same key.
  SELECT array_agg(w.holder ORDER BY w.n), array_agg(w.first ORDER BY w.n),
         json_agg(w.job ORDER BY w.n) FILTER (WHERE w.holder IS NULL AND w.first = w.n)
  INTO holders, firsts, wanted FROM (
    SELECT e.n, e.job, punctual_internal.unique_holder(e.job, at) AS holder,
           CASE WHEN e.job ->> 'unique_key' IS NULL THEN e.n
             ELSE min(e.n) OVER (PARTITION BY e.job ->> 'unique_key') END AS first
    FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, n)
  ) AS w;
  IF wanted IS NOT NULL THEN
    SELECT array_agg(m.id ORDER BY m.n) INTO made
    FROM punctual_internal.enqueue(wanted, at, tell) WITH ORDINALITY AS m (id, n);
  END IF;
  taken := 0;
  FOR n IN 1 .. cardinality(holders) LOOP
    IF holders[n] IS NOT NULL THEN
      answers := answers || holders[n];
    ELSIF firsts[n] < n THEN
      answers := answers || answers[firsts[n]];
    ELSE
      taken := taken + 1;
      answers := answers || made[taken];
    END IF;
  END LOOP;
  UPDATE punctual_internal.unique_keys AS k
  SET job_id = answers[e.n], until_at = at + (e.job ->> 'unique_us')::bigint * interval '1 microsecond'
  FROM json_array_elements(jobs) WITH ORDINALITY AS e (job, n)
  WHERE k.key = e.job ->> 'unique_key' AND holders[e.n] IS NULL AND firsts[e.n] = e.n;
  RETURN QUERY SELECT answers[g.n], holders[g.n] IS NULL AND firsts[g.n] = g.n
  FROM generate_series(1, cardinality(holders)) AS g (n) ORDER BY g.n;
END
$$;

-- Serial keys whose next jobs wait, and the job whose failure they wait for.
CREATE TABLE punctual_internal.serial_holds (
  key text COLLATE "C" NOT NULL PRIMARY KEY,
  job_id uuid NOT NULL,
  held_at timestamptz NOT NULL
);

-- The job of a serial key that may be claimed: its first in queue order; of a key that is held, the last retry of the job
-- that failed and nobody else.
CREATE FUNCTION punctual_internal.serial_head(key text) RETURNS uuid
LANGUAGE sql STABLE SET search_path = '' AS $$
  SELECT coalesce(
    (SELECT punctual_internal.chain_end(h.job_id) FROM punctual_internal.serial_holds AS h WHERE h.key = $1),
    (SELECT q.job_id FROM punctual_internal.queue AS q WHERE q.serial_key = $1
     ORDER BY q.priority DESC, q.position, q.created_at, q.job_id LIMIT 1))
$$;

-- As before, with a head that heeds what is held.
CREATE OR REPLACE FUNCTION punctual_internal.settle_serial_keys(keys text[]) RETURNS void
LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  UPDATE punctual_internal.queue AS q SET ready = false
  FROM (SELECT w.key, punctual_internal.serial_head(w.key) AS job_id FROM unnest(keys) AS w (key)) AS head
  WHERE q.serial_key = head.key AND q.ready AND q.job_id <> head.job_id;
  UPDATE punctual_internal.queue AS q SET ready = true
  FROM (SELECT w.key, punctual_internal.serial_head(w.key) AS job_id FROM unnest(keys) AS w (key)) AS head
  WHERE q.job_id = head.job_id AND q.serial_key = head.key AND NOT q.ready
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.serial_key = head.key);
END
$$;

ALTER TABLE punctual_internal.templates ADD COLUMN parameters json NOT NULL DEFAULT '[]';

CREATE TABLE punctual_internal.cron_presets (
  name text COLLATE "C" NOT NULL PRIMARY KEY,
  expression text COLLATE "C" NOT NULL,
  description text COLLATE "C" NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL
);
