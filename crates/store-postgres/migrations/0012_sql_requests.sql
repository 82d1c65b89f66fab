-- What people who know SQL only may do: who asks, whether he may, and what of it a node has to carry out.
--
-- The public side is in the next migration. SQLite has no such surface: its file belongs to one program. When slots lie
-- is not for SQL to say, so that whatever moves a plan is written down as a request; the next node that fires carries it
-- out as if it had been asked at that time, by the same rules as the API. Everything else is done at once.

CREATE TABLE punctual_internal.schedule_requests (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id uuid NOT NULL REFERENCES punctual_internal.schedules (id),
  asked_at timestamptz NOT NULL,
  asked_by text COLLATE "C" NOT NULL,
  what text COLLATE "C" NOT NULL CHECK (what IN ('make', 'edit', 'resume', 'reschedule', 'skip_next')),
  -- Of an edit: what it was before.
  from_version bigint,
  at timestamptz,
  CHECK ((what = 'edit') = (from_version IS NOT NULL)),
  CHECK ((what = 'reschedule') = (at IS NOT NULL))
);
CREATE INDEX schedule_requests_schedule ON punctual_internal.schedule_requests (schedule_id, id);

-- Since when something is asked of a schedule. Nothing is due of it until that is carried out.
ALTER TABLE punctual_internal.schedule_state ADD COLUMN asked_since timestamptz;
CREATE INDEX schedule_state_asked ON punctual_internal.schedule_state (asked_since, schedule_id)
  WHERE asked_since IS NOT NULL;

-- Whether those who are no admins see their own only. No row: they see everything.
CREATE TABLE punctual_internal.owner_checks (
  id smallint PRIMARY KEY CHECK (id = 1)
);

-- From now on these functions are called for people who may make tables and types of their own. Where no path names the
-- schema of temporary ones, that is searched first, and a type `uuid` in it would be taken for the real one.
DO $$
DECLARE
  function regprocedure;
BEGIN
  FOR function IN SELECT p.oid FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = 'punctual_internal'::regnamespace AND p.proconfig @> ARRAY['search_path=""']
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', function);
  END LOOP;
END
$$;

-- Who asks: the role that was last taken on by SET ROLE, or else the login. Not `current_user`, which is the owner of
-- whatever function this is called from.
CREATE FUNCTION punctual_internal.caller() RETURNS text LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE current_setting('role') WHEN 'none' THEN session_user::text ELSE current_setting('role') END;
END
$$;

CREATE FUNCTION punctual_internal.is_admin() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT pg_has_role(punctual_internal.caller(), n.nspowner, 'MEMBER')
      OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles AS r
                 WHERE r.rolname = 'punctual_admin' AND pg_has_role(punctual_internal.caller(), r.oid, 'MEMBER'))
    FROM pg_catalog.pg_namespace AS n WHERE n.nspname = 'punctual_internal');
END
$$;

-- Whether somebody is the caller himself, or a role that the caller belongs to.
CREATE FUNCTION punctual_internal.owns(owner text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(owner = punctual_internal.caller(), false)
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles AS r
               WHERE r.rolname = owner AND pg_has_role(punctual_internal.caller(), r.oid, 'MEMBER'));
END
$$;

CREATE FUNCTION punctual_internal.sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN NOT EXISTS (SELECT 1 FROM punctual_internal.owner_checks) OR punctual_internal.is_admin();
END
$$;

-- Whether the caller may change what is somebody's; says so if not. What he does not see is not there for him.
CREATE FUNCTION punctual_internal.check_owner(what text, named text, owner text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF punctual_internal.is_admin() OR punctual_internal.owns(owner) THEN
    RETURN;
  ELSIF NOT punctual_internal.sees_all() THEN
    PERFORM punctual_internal.not_found(what, named);
  END IF;
  RAISE EXCEPTION 'punctual: the % "%" belongs to %', what, named, coalesce(owner, 'nobody')
    USING ERRCODE = 'insufficient_privilege', HINT = 'Its owner or a member of punctual_admin may do this.';
END
$$;

CREATE FUNCTION punctual_internal.not_found(what text, named text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'punctual: there is no % "%"', what, named USING ERRCODE = 'no_data_found',
    HINT = CASE what WHEN 'job' THEN 'SELECT id, state FROM punctual.jobs_overview shows those that are there.'
      ELSE 'SELECT name FROM punctual.scheduled_jobs shows those that are there.' END;
END
$$;

-- An id that carries a time, as the store makes them.
CREATE FUNCTION punctual_internal.new_id(at timestamptz) RETURNS uuid
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (punctual_internal.id_prefix($1) || right(replace(gen_random_uuid()::text, '-', ''), 16))::uuid
$$;

-- Who changed what, beside what the API writes.
CREATE FUNCTION punctual_internal.audit(action text, subject text, before json DEFAULT NULL, after json DEFAULT NULL)
RETURNS void LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO punctual_internal.audit_log (id, at, actor, action, subject, before, after)
  VALUES (punctual_internal.new_id(now()), now(), punctual_internal.caller(), $1, $2, $3, $4)
$$;

-- The rule of names, as `punctual_core::name::check` has it. Refusing a little more does no harm; less would store what
-- nobody can read again.
CREATE FUNCTION punctual_internal.check_name(what text, given text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  blank text := '[\s\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]';
  problem text := CASE
    WHEN given IS NULL OR given = '' THEN 'is empty'
    WHEN length(given) > 200 THEN 'is longer than 200 characters'
    WHEN given ~ '[\u0001-\u001F\u007F-\u009F]' THEN 'has a control character'
    WHEN given ~ ('^' || blank) OR given ~ (blank || '$') THEN 'begins or ends with white space'
  END;
BEGIN
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION 'punctual: the % %', what, problem USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Give it 1 to 200 characters, without line breaks, and without white space at either end.';
  END IF;
END
$$;

-- The shape of a cron expression: what can be said of it without reading it. The rest is told by `problem`.
CREATE FUNCTION punctual_internal.check_schedule(given text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  trimmed text := btrim(given, E' \t\n\r');
  fields text[] := regexp_split_to_array(trimmed, '\s+');
  field text;
BEGIN
  IF trimmed IS NULL OR trimmed = '' THEN
    RAISE EXCEPTION 'punctual: the schedule is empty' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Write five fields: minute hour day-of-month month day-of-week, such as ''0 3 * * *''.';
  ELSIF length(given) > 1000 THEN
    RAISE EXCEPTION 'punctual: the schedule is longer than 1000 characters' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Write several schedules.';
  ELSIF fields[1] ~ '^@' THEN
    IF NOT (lower(fields[1]) IN ('@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly')
            AND cardinality(fields) = 1)
       AND NOT (lower(fields[1]) IN ('@every', '@at') AND cardinality(fields) > 1) THEN
      RAISE EXCEPTION 'punctual: the schedule "%" is not known', given USING ERRCODE = 'invalid_parameter_value',
        HINT = 'There are @yearly, @monthly, @weekly, @daily, @hourly, @every 5m, and @at 2026-12-01T08:00:00Z.';
    END IF;
    RETURN;
  ELSIF cardinality(fields) NOT IN (5, 6) THEN
    RAISE EXCEPTION 'punctual: the schedule "%" has % fields', given, cardinality(fields)
      USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Write five fields (minute hour day-of-month month day-of-week), or six with seconds first.';
  END IF;
  FOREACH field IN ARRAY fields LOOP
    IF field !~ '^[0-9A-Za-z*?,/#~-]+$' THEN
      RAISE EXCEPTION 'punctual: "%" in the schedule "%" is not a field', field, given
        USING ERRCODE = 'invalid_parameter_value',
        HINT = 'A field is made of numbers, names such as MON or JAN, and * , - / ? # ~ L W H.';
    END IF;
  END LOOP;
END
$$;

-- What `@at` says, or nothing.
CREATE FUNCTION punctual_internal.at_of(given text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest text := substring(btrim(given, E' \t\n\r') FROM '(?i)^@at\s+(.*)$');
  at timestamptz;
BEGIN
  at := rest::timestamptz;
  IF NOT isfinite(at) THEN
    RAISE invalid_datetime_format;
  END IF;
  RETURN at;
EXCEPTION WHEN data_exception THEN
  RAISE EXCEPTION 'punctual: "%" in the schedule is not a time', rest USING ERRCODE = 'invalid_parameter_value',
    HINT = 'Write it as @at 2026-12-01T08:00:00Z or @at 2026-12-01 09:00 Europe/Berlin.';
END
$$;

-- An instant as the program writes it.
CREATE FUNCTION punctual_internal.instant(at timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT to_char($1 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
    || CASE WHEN date_trunc('second', $1) = $1 THEN ''
         ELSE '.' || rtrim(to_char($1 AT TIME ZONE 'UTC', 'US'), '0') END || 'Z'
$$;

-- A period as the program writes it: 1h30m.
CREATE FUNCTION punctual_internal.period(us bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(nullif(concat(
    CASE WHEN $1 >= 86400000000 THEN $1 / 86400000000 || 'd' END,
    CASE WHEN $1 % 86400000000 >= 3600000000 THEN $1 % 86400000000 / 3600000000 || 'h' END,
    CASE WHEN $1 % 3600000000 >= 60000000 THEN $1 % 3600000000 / 60000000 || 'm' END,
    CASE WHEN $1 % 60000000 >= 1000000 THEN $1 % 60000000 / 1000000 || 's' END,
    CASE WHEN $1 % 1000000 >= 1000 THEN $1 % 1000000 / 1000 || 'ms' END), ''), '0s')
$$;

CREATE FUNCTION punctual_internal.micros(length interval) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (extract(epoch FROM $1) * 1000000)::bigint
$$;

-- Keeps what a schedule was, before it is edited.
CREATE FUNCTION punctual_internal.keep_version(schedule uuid, at timestamptz) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO punctual_internal.schedule_versions (schedule_id, version, replaced_at, definition)
  SELECT id, version, $2, json_build_object(
    'name', name, 'description', description, 'labels', labels, 'cron', cron, 'every_us', every_us, 'at', at,
    'timezone', timezone, 'dst_gap', dst_gap, 'dst_overlap', dst_overlap, 'starts_at', starts_at, 'ends_at', ends_at,
    'calendar', calendar, 'target', target, 'input', input, 'template_id', template_id, 'queue', queue,
    'priority', priority, 'serial', serial, 'retry', retry, 'timeout_us', timeout_us, 'missed', missed,
    'overlap', overlap, 'max_concurrent_runs', max_concurrent_runs, 'jitter_us', jitter_us, 'depends_on', depends_on,
    'depends_within_us', depends_within_us, 'grant_id', grant_id, 'owner', owner, 'source', source,
    'burst_allowed', burst_allowed, 'pause_after_failures', pause_after_failures, 'tags', tags)
  FROM punctual_internal.schedules WHERE id = $1
$$;

-- Asks something of a schedule whose rows the caller has locked, and wakes whoever fires.
CREATE FUNCTION punctual_internal.ask(schedule uuid, what text, from_version bigint DEFAULT NULL,
                                      at timestamptz DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO punctual_internal.schedule_requests (schedule_id, asked_at, asked_by, what, from_version, at)
  VALUES (schedule, now(), punctual_internal.caller(), what, from_version, at);
  UPDATE punctual_internal.schedule_state AS t SET asked_since = coalesce(t.asked_since, now()), next_run_at = NULL
  WHERE t.schedule_id = schedule;
  PERFORM pg_catalog.pg_notify('punctual_wake', '');
END
$$;

-- A schedule that is not deleted, for somebody who may change it; it is not deleted until his transaction is over.
CREATE FUNCTION punctual_internal.own_schedule(job_name text) RETURNS punctual_internal.schedules
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s punctual_internal.schedules;
BEGIN
  SELECT * INTO s FROM punctual_internal.schedules AS w
  WHERE w.name = job_name AND w.deleted_at IS NULL FOR KEY SHARE;
  IF NOT FOUND THEN
    PERFORM punctual_internal.not_found('schedule', job_name);
  END IF;
  PERFORM punctual_internal.check_owner('schedule', job_name, s.owner);
  RETURN s;
END
$$;

-- Locks a schedule and where it stands, in the order in which everybody does, and says where it stands.
CREATE FUNCTION punctual_internal.lock_schedule(schedule uuid) RETURNS punctual_internal.schedule_state
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t punctual_internal.schedule_state;
BEGIN
  PERFORM 1 FROM punctual_internal.schedules AS s WHERE s.id = schedule FOR NO KEY UPDATE;
  SELECT * INTO t FROM punctual_internal.schedule_state AS w WHERE w.schedule_id = schedule FOR UPDATE;
  RETURN t;
END
$$;

-- Why a schedule stands still, if that is not as it was meant: one that never had a time ahead among them.
CREATE FUNCTION punctual_internal.problem_of(t punctual_internal.schedule_state) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce($1.problem, CASE WHEN $1.exhausted_at IS NOT NULL AND $1.last_slot_at IS NULL
                                THEN 'there is no time ahead at which it is due' END)
$$;

-- What is paused has no next slot to move.
CREATE FUNCTION punctual_internal.check_runs(s punctual_internal.schedules, t punctual_internal.schedule_state)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT t.enabled THEN
    RAISE EXCEPTION 'punctual: the schedule "%" is paused', s.name
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Resume it first: SELECT punctual.resume_schedule(…).';
  END IF;
END
$$;

-- Pauses at once; a resume that no node has carried out yet is taken back. Of one that is paused only the end changes.
CREATE FUNCTION punctual_internal.pause(schedule uuid, note text, until timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM punctual_internal.lock_schedule(schedule);
  UPDATE punctual_internal.schedule_state AS t
  SET enabled = false, next_run_at = NULL, paused_at = now(), paused_by = punctual_internal.caller(), pause_note = note,
      paused_until = until
  WHERE t.schedule_id = schedule AND t.enabled;
  IF FOUND THEN
    DELETE FROM punctual_internal.schedule_requests AS q WHERE q.schedule_id = schedule AND q.what = 'resume';
    UPDATE punctual_internal.schedule_state AS t SET asked_since = NULL
    WHERE t.schedule_id = schedule AND t.asked_since IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_requests AS q WHERE q.schedule_id = schedule);
  ELSE
    UPDATE punctual_internal.schedule_state AS t
    SET paused_until = coalesce(until, t.paused_until), pause_note = coalesce(note, t.pause_note)
    WHERE t.schedule_id = schedule;
  END IF;
  PERFORM pg_catalog.pg_notify('punctual_wake', '');
END
$$;

-- Goes on; what passed meanwhile is told by whoever carries it out.
CREATE FUNCTION punctual_internal.resume(schedule uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM punctual_internal.lock_schedule(schedule);
  UPDATE punctual_internal.schedule_state AS t SET enabled = true, paused_until = NULL
  WHERE t.schedule_id = schedule AND NOT t.enabled;
  IF FOUND THEN
    PERFORM punctual_internal.ask(schedule, 'resume');
  END IF;
END
$$;

-- Ends a job that has not started; false when it is not one. The caller has locked its serial key, and settles it.
CREATE FUNCTION punctual_internal.close_waiting(job uuid, code text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  waited boolean;
BEGIN
  DELETE FROM punctual_internal.delayed AS d WHERE d.job_id = job;
  waited := FOUND;
  DELETE FROM punctual_internal.queue AS q WHERE q.job_id = job;
  IF NOT waited AND NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO punctual_internal.runs (job_id, finished_at, final, outcome, error_code)
  VALUES (job, now(), true, 'cancelled', code);
  DELETE FROM punctual_internal.schedule_live AS v USING punctual_internal.jobs AS j
  WHERE j.id = job AND v.schedule_id = j.schedule_id AND v.job_id = job;
  RETURN true;
END
$$;

-- Deletes a schedule: what waits is cancelled, what runs goes on, its history stays.
CREATE FUNCTION punctual_internal.end_schedule(schedule uuid) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  live uuid;
BEGIN
  PERFORM 1 FROM punctual_internal.schedules AS s WHERE s.id = schedule FOR UPDATE;
  PERFORM 1 FROM punctual_internal.schedule_state AS t WHERE t.schedule_id = schedule FOR UPDATE;
  UPDATE punctual_internal.schedules AS s SET deleted_at = now() WHERE s.id = schedule;
  UPDATE punctual_internal.schedule_state AS t
  SET enabled = false, next_slot_at = NULL, next_run_at = NULL, paused_until = NULL, asked_since = NULL
  WHERE t.schedule_id = schedule;
  DELETE FROM punctual_internal.schedule_requests AS q WHERE q.schedule_id = schedule;
  PERFORM punctual_internal.lock_serial_keys(ARRAY[schedule::text]);
  FOR live IN SELECT v.job_id FROM punctual_internal.schedule_live AS v WHERE v.schedule_id = schedule ORDER BY 1 LOOP
    PERFORM punctual_internal.close_waiting(live, 'cancelled');
  END LOOP;
  PERFORM punctual_internal.settle_serial_keys(ARRAY[schedule::text]);
  PERFORM pg_catalog.pg_notify('punctual_wake', '');
END
$$;

-- Makes one job that is written out, and queues it. The answer is its id.
CREATE FUNCTION punctual_internal.make_job(job punctual_internal.jobs) RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF job.serial_key IS NOT NULL THEN
    PERFORM punctual_internal.lock_serial_keys(ARRAY[job.serial_key]);
  END IF;
  INSERT INTO punctual_internal.jobs SELECT job.*;
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key,
                                       schedule_id, tags)
  VALUES (job.id, job.lane_id, job.priority, job.serial_key IS NULL,
          nextval('punctual_internal.positions') * 1048576, job.created_at, job.created_at, job.serial_key,
          job.schedule_id, job.tags);
  IF job.schedule_id IS NOT NULL THEN
    INSERT INTO punctual_internal.schedule_live (schedule_id, job_id) VALUES (job.schedule_id, job.id);
  END IF;
  IF job.serial_key IS NOT NULL THEN
    PERFORM punctual_internal.settle_serial_keys(ARRAY[job.serial_key]);
  END IF;
  PERFORM pg_catalog.pg_notify('punctual_wake', '');
  RETURN job.id;
END
$$;

-- The lane without tags of a queue and a job type, made if it is not there.
CREATE FUNCTION punctual_internal.lane_of(queue_name text, type text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_id bigint;
BEGIN
  LOOP
    SELECT l.id INTO found_id FROM punctual_internal.lanes AS l
    WHERE l.queue = queue_name AND l.job_type = type AND l.tags = '{}';
    IF FOUND THEN
      RETURN found_id;
    END IF;
    INSERT INTO punctual_internal.queues (name, created_at) VALUES (queue_name, now()) ON CONFLICT (name) DO NOTHING;
    INSERT INTO punctual_internal.lanes (queue, job_type) VALUES (queue_name, type)
    ON CONFLICT (queue, job_type, tags) DO NOTHING;
  END LOOP;
END
$$;
