-- Limits: how many jobs run at once and how many start in a while, for everything, a queue, a job type or a tag.
--
-- What runs is counted in `running`; only what is in the bucket of a rate is kept here, in units of which a job costs
-- `rate_per_us` and every microsecond brings `rate_jobs`. Differs from SQLite, where one writer counts in the program:
-- here whoever claims locks the rows of the limits that matter to it, and counts what runs only then.
CREATE TABLE punctual_internal.limits (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('all', 'queue', 'type', 'tag')),
  name text COLLATE "C" NOT NULL CHECK ((scope = 'all') = (name = '')),
  concurrency bigint CHECK (concurrency >= 0),
  node_concurrency bigint CHECK (node_concurrency >= 0),
  rate_jobs bigint CHECK (rate_jobs > 0),
  rate_per_us bigint CHECK (rate_per_us > 0),
  rate_burst bigint CHECK (rate_burst > 0),
  level bigint CHECK (level >= 0),
  level_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  UNIQUE (scope, name),
  CHECK (concurrency IS NOT NULL OR node_concurrency IS NOT NULL OR rate_jobs IS NOT NULL),
  CHECK ((rate_jobs IS NULL) = (rate_per_us IS NULL) AND (rate_jobs IS NULL) = (rate_burst IS NULL)
    AND (rate_jobs IS NULL) = (level IS NULL) AND (rate_jobs IS NULL) = (level_at IS NULL))
) WITH (fillfactor = 50);

-- Which limits count the jobs of a lane, in the order of their ids. Kept with the lane, because a claim asks for all
-- lanes at once, and limits change seldom.
CREATE FUNCTION punctual_internal.limits_of(queue text, job_type text, tags text[])
RETURNS bigint[] LANGUAGE sql STABLE AS $$
  SELECT ARRAY(
    SELECT l.id FROM punctual_internal.limits AS l
    WHERE l.scope = 'all' OR (l.scope = 'queue' AND l.name = $1) OR (l.scope = 'type' AND l.name = $2)
      OR (l.scope = 'tag' AND l.name = ANY ($3))
    ORDER BY l.id)
$$;

-- Whoever sets a limit takes the lock for himself, and changes the lanes that are there by then.
CREATE FUNCTION punctual_internal.new_lane() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(7815263004);
  NEW.limits := punctual_internal.limits_of(NEW.queue, NEW.job_type, NEW.tags);
  RETURN NEW;
END
$$;
CREATE TRIGGER new_lane BEFORE INSERT ON punctual_internal.lanes
  FOR EACH ROW EXECUTE FUNCTION punctual_internal.new_lane();

ALTER TABLE punctual_internal.schedules ADD COLUMN tags json;

-- The level of a bucket now. A clock that was turned back brings nothing.
CREATE FUNCTION punctual_internal.refilled(level bigint, level_at timestamptz, jobs bigint, per_us bigint, burst bigint,
                                           at timestamptz)
RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT least($1 + $3 * greatest(extract(epoch FROM $6) - extract(epoch FROM $2), 0) * 1000000, $5 * $4)::bigint
$$;

-- The lanes that a node may take jobs from, or a null when its lease does not hold. Until the transaction is done nobody
-- ends the lease, and no queue is paused or reserved: claims share a lock that whoever does so takes for himself. In a
-- function, because each of its statements sees what was committed before it began: a claim that had to wait for
-- somebody who paused a queue must see the pause. Where there are limits a zero says so, unless they are heeded.
CREATE FUNCTION punctual_internal.open_lanes(at timestamptz, queues text[], types text[], node uuid, lease uuid,
                                            heeds_limits boolean DEFAULT false)
RETURNS SETOF bigint LANGUAGE plpgsql ROWS 10 SET search_path = '' AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(7815263002)
  FROM punctual_internal.leases AS l WHERE l.node_id = node AND l.lease_id = lease FOR KEY SHARE;
  IF NOT FOUND THEN
    RETURN NEXT NULL;
    RETURN;
  END IF;
  IF NOT heeds_limits AND EXISTS (SELECT 1 FROM punctual_internal.limits) THEN
    RETURN NEXT 0;
    RETURN;
  END IF;
  RETURN QUERY SELECT l.id FROM punctual_internal.lanes AS l JOIN punctual_internal.queues AS q ON q.name = l.queue
    WHERE NOT q.paused AND (queues IS NULL OR l.queue = ANY (queues)) AND l.job_type = ANY (types)
      AND NOT EXISTS (SELECT 1 FROM punctual_internal.reservations AS r
                      WHERE r.queue = l.queue AND r.ended_at IS NULL AND r.expires_at > at);
END
$$;

-- The lane that a job goes to, by those of its tags that are limited: one beside the given one.
CREATE FUNCTION punctual_internal.tagged_lane(beside bigint, job_tags json)
RETURNS bigint LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
  limited text[] := ARRAY(
    SELECT l.name FROM punctual_internal.limits AS l
    WHERE l.scope = 'tag' AND l.name IN (SELECT t FROM json_array_elements_text(job_tags) AS t)
    ORDER BY l.name);
  fitting bigint;
BEGIN
  LOOP
    SELECT w.id INTO fitting FROM punctual_internal.lanes AS l
    JOIN punctual_internal.lanes AS w ON w.queue = l.queue AND w.job_type = l.job_type AND w.tags = limited
    WHERE l.id = beside;
    IF FOUND THEN
      RETURN fitting;
    END IF;
    INSERT INTO punctual_internal.lanes (queue, job_type, tags)
    SELECT l.queue, l.job_type, limited FROM punctual_internal.lanes AS l WHERE l.id = beside
    ON CONFLICT (queue, job_type, tags) DO NOTHING;
    IF NOT EXISTS (SELECT 1 FROM punctual_internal.lanes AS l WHERE l.id = beside) THEN
      RAISE EXCEPTION 'punctual: there is no lane %', beside;
    END IF;
  END LOOP;
END
$$;

-- Every way into the queue leads through here, so that no job can slip past the limit of a tag. Whoever limits a tag
-- takes the lock for himself, and sorts what is in the queue by then.
CREATE FUNCTION punctual_internal.queue_by_tags() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(7815263004);
  NEW.lane_id := punctual_internal.tagged_lane(NEW.lane_id, NEW.tags);
  RETURN NEW;
END
$$;
CREATE TRIGGER queue_by_tags BEFORE INSERT ON punctual_internal.queue
  FOR EACH ROW WHEN (NEW.tags IS NOT NULL) EXECUTE FUNCTION punctual_internal.queue_by_tags();

-- How many more jobs each limit lets start: on all nodes, on one node, and by what is in its bucket. Without settings of
-- its own, because then the planner puts it into the statement; calling it costs as much as the rest of a claim.
CREATE FUNCTION punctual_internal.rooms(at timestamptz, node uuid)
RETURNS TABLE (id bigint, room bigint) LANGUAGE sql STABLE AS $$
  SELECT l.id, greatest(least(l.concurrency - coalesce(g.everywhere, 0), l.node_concurrency - coalesce(g.here, 0),
           punctual_internal.refilled(l.level, l.level_at, l.rate_jobs, l.rate_per_us, l.rate_burst, $1)
             / l.rate_per_us), 0)::bigint
  FROM punctual_internal.limits AS l
  LEFT JOIN (
    SELECT k.id, sum(r.jobs) AS everywhere, sum(r.jobs) FILTER (WHERE r.node_id = $2) AS here
    FROM (SELECT lane_id, node_id, count(*) AS jobs FROM punctual_internal.running WHERE limited
          GROUP BY lane_id, node_id) AS r
    JOIN punctual_internal.lanes AS w ON w.id = r.lane_id
    CROSS JOIN LATERAL unnest(w.limits) AS k (id)
    GROUP BY k.id
  ) AS g ON g.id = l.id
$$;

-- How many jobs a node may take out of each lane, within all limits and in queue order; and a row without a lane that
-- says whether its lease holds, whether there are limits at all, and in how many microseconds the next job that a rate
-- keeps back may start. The tokens are taken out of their buckets here: a job that somebody else takes away in the same
-- moment costs one in vain, and never does one start without.
CREATE FUNCTION punctual_internal.claim_quotas(at timestamptz, queues text[], types text[], node uuid, lease uuid,
                                               wanted bigint)
RETURNS TABLE (lane bigint, quota bigint, lease_holds boolean, limits_exist boolean, more_in_us bigint)
LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
  -- Those without a job that waits need no room.
  open bigint[] := ARRAY(
    SELECT o FROM punctual_internal.open_lanes(at, queues, types, node, lease, true) AS o
    WHERE o IS NULL OR EXISTS (SELECT 1 FROM punctual_internal.queue AS q WHERE q.lane_id = o AND q.ready));
  lanes bigint[];      -- those with room
  limit_ids bigint[];
  left_of bigint[];    -- of each limit: how many more jobs may start
  of_lane bigint[];    -- the numbers of the limits of all lanes, one lane after the other
  ends bigint[];       -- of each lane: where its part of that ends
  caps bigint[];       -- of each lane: the most it could give
  quotas bigint[];     -- of each lane: what it gives
  head bigint;
  n bigint;
  taken bigint := 0;
BEGIN
  IF cardinality(open) = 1 AND open[1] IS NULL THEN
    lease_holds := false;
    limits_exist := true;
    RETURN NEXT;
    RETURN;
  END IF;
  -- A look without locks: what is full now is passed over, and nobody waits for a limit that lets nothing start. Who
  -- makes room meanwhile is met at the next look.
  lanes := ARRAY(
    SELECT w.id FROM punctual_internal.lanes AS w
    WHERE w.id = ANY (open) AND NOT w.limits && ARRAY(
      SELECT r.id FROM punctual_internal.rooms(at, node) AS r WHERE r.room = 0)
    ORDER BY w.id);
  -- In the order of their ids, so that two who claim never wait for each other in a circle.
  limit_ids := ARRAY(
    SELECT l.id FROM punctual_internal.limits AS l
    WHERE l.id = ANY (ARRAY(SELECT unnest(w.limits) FROM punctual_internal.lanes AS w WHERE w.id = ANY (lanes)))
    ORDER BY l.id FOR UPDATE);
  -- Only now it counts: a statement sees what was committed before it began.
  left_of := ARRAY(
    SELECT r.room FROM punctual_internal.rooms(at, node) AS r WHERE r.id = ANY (limit_ids) ORDER BY r.id);
  SELECT array_agg(p.number ORDER BY p.n, p.number) FILTER (WHERE p.number IS NOT NULL) INTO of_lane
  FROM (SELECT o.n, array_position(limit_ids, k.id) AS number
        FROM unnest(lanes) WITH ORDINALITY AS o (id, n)
        JOIN punctual_internal.lanes AS w ON w.id = o.id
        CROSS JOIN LATERAL unnest(w.limits) AS k (id)) AS p;
  SELECT array_agg(p.ends ORDER BY p.n), array_agg(p.cap ORDER BY p.n) INTO ends, caps
  FROM (SELECT o.n, sum(cardinality(w.limits)) OVER (ORDER BY o.n) AS ends,
               least((SELECT min(left_of[array_position(limit_ids, k.id)]) FROM unnest(w.limits) AS k (id)), wanted) AS cap
        FROM unnest(lanes) WITH ORDINALITY AS o (id, n)
        JOIN punctual_internal.lanes AS w ON w.id = o.id) AS p;
  quotas := array_fill(0::bigint, ARRAY[cardinality(lanes)]);

  IF cardinality(lanes) = 1 THEN
    -- All jobs of a lane have the same limits: there is nothing to choose.
    SELECT count(*) INTO taken FROM (
      SELECT 1 FROM punctual_internal.queue AS q WHERE q.lane_id = lanes[1] AND q.ready LIMIT caps[1]) AS h;
    quotas[1] := taken;
  ELSE
    <<heads>>
    FOR head IN
      SELECT o.n FROM unnest(lanes, caps) WITH ORDINALITY AS o (id, cap, n)
      CROSS JOIN LATERAL (
        SELECT q.priority, q.position, q.created_at, q.job_id FROM punctual_internal.queue AS q
        WHERE q.lane_id = o.id AND q.ready
        ORDER BY q.priority DESC, q.position, q.created_at, q.job_id
        LIMIT o.cap
      ) AS h
      ORDER BY h.priority DESC, h.position, h.created_at, h.job_id
      LIMIT CASE WHEN cardinality(limit_ids) = 0 THEN wanted END
    LOOP
      EXIT WHEN taken = wanted;
      FOR n IN coalesce(ends[head - 1], 0) + 1 .. ends[head] LOOP
        CONTINUE heads WHEN left_of[of_lane[n]] = 0;
      END LOOP;
      FOR n IN coalesce(ends[head - 1], 0) + 1 .. ends[head] LOOP
        left_of[of_lane[n]] := left_of[of_lane[n]] - 1;
      END LOOP;
      quotas[head] := quotas[head] + 1;
      taken := taken + 1;
    END LOOP;
  END IF;

  UPDATE punctual_internal.limits AS l SET
    level = punctual_internal.refilled(l.level, l.level_at, l.rate_jobs, l.rate_per_us, l.rate_burst, at)
      - spent.jobs * l.rate_per_us,
    level_at = greatest(l.level_at, at)
  FROM (
    SELECT k.id, sum(o.jobs) AS jobs FROM unnest(lanes, quotas) AS o (id, jobs)
    JOIN punctual_internal.lanes AS w ON w.id = o.id
    CROSS JOIN LATERAL unnest(w.limits) AS k (id)
    WHERE o.jobs > 0 GROUP BY k.id
  ) AS spent
  WHERE l.id = ANY (limit_ids) AND l.id = spent.id AND l.rate_jobs IS NOT NULL;

  RETURN QUERY SELECT o.id, o.jobs, NULL::boolean, NULL::boolean, NULL::bigint
    FROM unnest(lanes, quotas) AS o (id, jobs) WHERE o.jobs > 0;
  lane := NULL;
  quota := NULL;
  lease_holds := true;
  limits_exist := EXISTS (SELECT 1 FROM punctual_internal.limits);
  IF taken < wanted THEN
    more_in_us := (
      SELECT min(ceil((l.rate_per_us - r.level % l.rate_per_us)::numeric / l.rate_jobs)
                 + greatest(extract(epoch FROM l.level_at) - extract(epoch FROM at), 0) * 1000000)::bigint
      FROM punctual_internal.limits AS l
      CROSS JOIN LATERAL (SELECT punctual_internal.refilled(l.level, l.level_at, l.rate_jobs, l.rate_per_us,
                                                            l.rate_burst, at)) AS r (level)
      WHERE l.rate_jobs IS NOT NULL AND r.level < l.rate_per_us
        AND EXISTS (
          SELECT 1 FROM punctual_internal.lanes AS w
          WHERE w.id = ANY (open) AND l.id = ANY (w.limits)
            AND EXISTS (SELECT 1 FROM punctual_internal.queue AS q WHERE q.lane_id = w.id AND q.ready
                        OFFSET coalesce(quotas[array_position(lanes, w.id)], 0)))
    );
  END IF;
  RETURN NEXT;
END
$$;
