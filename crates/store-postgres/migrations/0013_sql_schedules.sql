-- Schedules for people who know SQL only: one row each, to be inserted, updated and deleted.
--
-- A table beside `schedules`, because only a table can be inserted into with ON CONFLICT, and deleted from with a true
-- count. Triggers keep the two alike: what SQL writes here is checked and carried over, what the API writes there is
-- brought here. `syncs` counts the latter, and so tells the two apart: nobody can write it by the view.

CREATE TABLE punctual_internal.scheduled_jobs (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id uuid NOT NULL UNIQUE,
  name text COLLATE "C" NOT NULL UNIQUE,
  description text COLLATE "C" DEFAULT '',
  function_name text COLLATE "C",
  connection text COLLATE "C" DEFAULT 'main',
  schedule text COLLATE "C" NOT NULL,
  timezone text COLLATE "C" NOT NULL DEFAULT 'UTC',
  enabled boolean NOT NULL DEFAULT true,
  input json NOT NULL DEFAULT '{}',
  queue text COLLATE "C" NOT NULL DEFAULT 'default',
  priority integer NOT NULL DEFAULT 0,
  serial boolean NOT NULL DEFAULT false,
  overlap text COLLATE "C" NOT NULL DEFAULT 'allow',
  missed text COLLATE "C" NOT NULL DEFAULT 'once',
  timeout interval DEFAULT '1 hour',
  max_attempts integer,
  jitter interval NOT NULL DEFAULT '0',
  starts_at timestamptz,
  ends_at timestamptz,
  calendar text COLLATE "C",
  labels json NOT NULL DEFAULT '{}',
  owner text COLLATE "C",
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  syncs bigint NOT NULL DEFAULT 0
);
-- A zone that another row has need not be looked up, which reads all zones there are.
CREATE INDEX scheduled_jobs_timezone ON punctual_internal.scheduled_jobs (timezone);

-- Brings a schedule's row here up to what the store has. What is alike already is left alone, so that what SQL wrote
-- and the store took over comes back to nothing.
CREATE FUNCTION punctual_internal.sync_scheduled_job(schedule uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO punctual_internal.scheduled_jobs AS m (
    schedule_id, name, description, function_name, connection, schedule, timezone, enabled, input, queue, priority,
    serial, overlap, missed, timeout, max_attempts, jitter, starts_at, ends_at, calendar, labels, owner, created_at,
    updated_at, syncs)
  SELECT s.id, s.name, s.description, s.target ->> 'function', s.target ->> 'connection',
    coalesce(s.cron, '@every ' || punctual_internal.period(s.every_us), '@at ' || punctual_internal.instant(s.at)),
    s.timezone, coalesce(t.enabled, true), s.input, s.queue, s.priority, s.serial, s.overlap,
    -- What was spoilt by hand is told by `problem`, and does not stand in anybody's way here.
    coalesce(s.missed ->> 'policy', 'once'), s.timeout_us * interval '1 microsecond',
    substring(s.retry ->> 'max_attempts' FROM '^[0-9]{1,9}$')::integer,
    s.jitter_us * interval '1 microsecond', s.starts_at, s.ends_at, s.calendar, s.labels, s.owner, s.created_at,
    s.updated_at, 1
  FROM punctual_internal.schedules AS s
  LEFT JOIN punctual_internal.schedule_state AS t ON t.schedule_id = s.id
  WHERE s.id = sync_scheduled_job.schedule AND s.deleted_at IS NULL
  ON CONFLICT (schedule_id) DO UPDATE SET
    name = excluded.name, description = excluded.description, function_name = excluded.function_name,
    connection = excluded.connection, schedule = excluded.schedule, timezone = excluded.timezone,
    enabled = excluded.enabled, input = excluded.input, queue = excluded.queue, priority = excluded.priority,
    serial = excluded.serial, overlap = excluded.overlap, missed = excluded.missed, timeout = excluded.timeout,
    max_attempts = excluded.max_attempts, jitter = excluded.jitter, starts_at = excluded.starts_at,
    ends_at = excluded.ends_at, calendar = excluded.calendar, labels = excluded.labels, owner = excluded.owner,
    updated_at = excluded.updated_at, syncs = m.syncs + 1
  WHERE (m.name, m.description, m.function_name, m.connection, m.schedule, m.timezone, m.enabled, m.input::text, m.queue,
         m.priority, m.serial, m.overlap, m.missed, m.timeout, m.max_attempts, m.jitter, m.starts_at, m.ends_at,
         m.calendar, m.labels::text, m.owner)
    IS DISTINCT FROM
        (excluded.name, excluded.description, excluded.function_name, excluded.connection, excluded.schedule,
         excluded.timezone, excluded.enabled, excluded.input::text, excluded.queue, excluded.priority, excluded.serial,
         excluded.overlap, excluded.missed, excluded.timeout, excluded.max_attempts, excluded.jitter,
         excluded.starts_at, excluded.ends_at, excluded.calendar, excluded.labels::text, excluded.owner);
END
$$;

CREATE FUNCTION punctual_internal.schedule_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NEW.deleted_at IS NULL THEN
    PERFORM punctual_internal.sync_scheduled_job(NEW.id);
  ELSE
    DELETE FROM punctual_internal.scheduled_jobs AS m WHERE m.schedule_id = NEW.id;
  END IF;
  RETURN NULL;
END
$$;
-- What nodes write when they carry out a request is not named: SQL holds the row here while it asks for the next one.
CREATE TRIGGER schedule_is_told AFTER INSERT OR UPDATE OF
    name, description, labels, cron, every_us, at, timezone, starts_at, ends_at, calendar, target, input, queue, priority,
    serial, retry, timeout_us, missed, overlap, jitter_us, owner, updated_at, deleted_at ON punctual_internal.schedules
  FOR EACH ROW EXECUTE FUNCTION punctual_internal.schedule_changed();

CREATE FUNCTION punctual_internal.schedule_switched() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM punctual_internal.sync_scheduled_job(NEW.schedule_id);
  RETURN NULL;
END
$$;
-- Firing does not name this column, and pays nothing for the trigger.
CREATE TRIGGER switch_is_told AFTER UPDATE OF enabled ON punctual_internal.schedule_state
  FOR EACH ROW WHEN (OLD.enabled <> NEW.enabled) EXECUTE FUNCTION punctual_internal.schedule_switched();

-- Refuses a zone that the database does not know, and says which one may be meant.
CREATE FUNCTION punctual_internal.check_zone(given text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  meant text;
BEGIN
  IF given = 'UTC' OR EXISTS (SELECT 1 FROM punctual_internal.scheduled_jobs AS m WHERE m.timezone = given)
    OR EXISTS (SELECT 1 FROM pg_catalog.pg_timezone_names AS z WHERE z.name = given) THEN
    RETURN;
  END IF;
  SELECT z.name INTO meant FROM pg_catalog.pg_timezone_names AS z
  WHERE z.name !~ '^(posix|right)/' AND (
    lower(z.name) = lower(given)
    OR lower(regexp_replace(z.name, '^.*/', '')) = lower(replace(regexp_replace(given, '^.*/', ''), ' ', '_')))
  ORDER BY lower(z.name) <> lower(given), z.name LIMIT 1;
  RAISE EXCEPTION 'punctual: there is no time zone "%"', given USING ERRCODE = 'invalid_parameter_value',
    HINT = coalesce('Do you mean ''' || meant || '''?',
                    'SELECT name FROM pg_timezone_names shows all; write such as Europe/Berlin or UTC.');
END
$$;

CREATE FUNCTION punctual_internal.check_function_name(given text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  parts integer;
BEGIN
  PERFORM punctual_internal.check_name('function_name', given);
  parts := cardinality(parse_ident(given));
  IF parts > 2 THEN
    RAISE invalid_parameter_value;
  END IF;
EXCEPTION WHEN invalid_parameter_value THEN
  RAISE EXCEPTION 'punctual: "%" is not the name of a function', given USING ERRCODE = 'invalid_parameter_value',
    HINT = 'Write it as SQL does, without parentheses: my_job, my_schema.my_job, or "My Schema"."My Job".';
END
$$;

-- The shape of everything that SQL can write of a schedule: what is stored must be readable for every node.
CREATE FUNCTION punctual_internal.check_scheduled_job(o punctual_internal.scheduled_jobs,
                                                     m punctual_internal.scheduled_jobs)
RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  label record;
BEGIN
  IF m.name IS DISTINCT FROM o.name THEN
    PERFORM punctual_internal.check_name('name', m.name);
    IF lower(m.name) ~ '^(urn:uuid:|\{)?([0-9a-f]{4}-?){8}\}?$' THEN
      RAISE EXCEPTION 'punctual: a UUID cannot be a name, because it would be taken for an id'
        USING ERRCODE = 'invalid_parameter_value', HINT = 'Add a letter or a word to it.';
    END IF;
  END IF;
  IF m.schedule IS DISTINCT FROM o.schedule THEN
    PERFORM punctual_internal.check_schedule(m.schedule);
  END IF;
  IF m.timezone IS DISTINCT FROM o.timezone THEN
    PERFORM punctual_internal.check_zone(m.timezone);
  END IF;
  IF m.function_name IS NOT NULL AND m.function_name IS DISTINCT FROM o.function_name THEN
    PERFORM punctual_internal.check_function_name(m.function_name);
  ELSIF m.function_name IS NULL AND (o IS NULL OR o.function_name IS NOT NULL
                                       OR m.connection IS DISTINCT FROM o.connection) THEN
    RAISE EXCEPTION 'punctual: function_name is missing' USING ERRCODE = 'not_null_violation',
      HINT = 'Name the function that the job calls; what else a job can do is said by the API and the command line.';
  END IF;
  IF m.function_name IS NOT NULL THEN
    PERFORM punctual_internal.check_name('connection', m.connection);
  END IF;
  PERFORM punctual_internal.check_name('queue', m.queue);
  IF octet_length(m.description) > 10000 THEN
    RAISE EXCEPTION 'punctual: the description is longer than 10,000 bytes' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Shorten it.';
  ELSIF octet_length(m.input::text) > 1048576 THEN
    RAISE EXCEPTION 'punctual: the input is larger than 1 MiB' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Keep it in a table of your own, and let the function read it.';
  ELSIF m.overlap NOT IN ('allow', 'forbid', 'replace', 'queue_one') THEN
    RAISE EXCEPTION 'punctual: overlap cannot be "%"', m.overlap USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Use allow, forbid, replace or queue_one.';
  ELSIF m.missed NOT IN ('skip', 'once', 'all') THEN
    RAISE EXCEPTION 'punctual: missed cannot be "%"', m.missed USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Use skip, once or all.';
  ELSIF m.timeout < '1 millisecond' OR m.timeout > '36525 days' THEN
    RAISE EXCEPTION 'punctual: the timeout is not between 1 millisecond and 100 years'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a time such as ''5 minutes'', or null for none.';
  ELSIF m.max_attempts NOT BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'punctual: max_attempts is not between 1 and 1000' USING ERRCODE = 'invalid_parameter_value',
      HINT = '1 means no retry.';
  ELSIF m.jitter NOT BETWEEN '0' AND '24 hours' THEN
    RAISE EXCEPTION 'punctual: the jitter is not between 0 and 24 hours' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Use at most ''24 hours''.';
  ELSIF m.ends_at <= m.starts_at THEN
    RAISE EXCEPTION 'punctual: ends_at is not after starts_at' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Set it later.';
  ELSIF NOT (isfinite(coalesce(m.starts_at, now())) AND isfinite(coalesce(m.ends_at, now()))) THEN
    RAISE EXCEPTION 'punctual: infinity is not a time' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Leave starts_at and ends_at null for no bound.';
  ELSIF m.calendar IS DISTINCT FROM o.calendar AND m.calendar IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.calendars AS c WHERE c.name = m.calendar) THEN
    RAISE EXCEPTION 'punctual: there is no calendar "%"', m.calendar USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Make it first: punctual calendar add.';
  END IF;
  IF m.labels::text IS DISTINCT FROM o.labels::text THEN
    IF json_typeof(m.labels) <> 'object' OR (SELECT count(*) FROM json_object_keys(m.labels)) > 64 THEN
      RAISE EXCEPTION 'punctual: the labels are not an object of at most 64' USING ERRCODE = 'invalid_parameter_value',
        HINT = 'Write them as {"team": "billing"}.';
    END IF;
    FOR label IN SELECT key, value FROM json_each(m.labels) LOOP
      PERFORM punctual_internal.check_name('label', label.key);
      IF json_typeof(label.value) <> 'string' OR length(label.value #>> '{}') > 200 THEN
        RAISE EXCEPTION 'punctual: the label "%" is not a text of at most 200 characters', label.key
          USING ERRCODE = 'invalid_parameter_value', HINT = 'Write them as {"team": "billing"}.';
      END IF;
    END LOOP;
  END IF;
END
$$;

CREATE FUNCTION punctual_internal.before_scheduled_job() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    -- Whoever deletes the schedule itself has done so before.
    IF EXISTS (SELECT 1 FROM punctual_internal.schedules AS s WHERE s.id = OLD.schedule_id AND s.deleted_at IS NULL) THEN
      PERFORM punctual_internal.check_owner('schedule', OLD.name, OLD.owner);
    END IF;
    RETURN OLD;
  ELSIF TG_OP = 'INSERT' THEN
    NEW.owner := coalesce(NEW.owner, punctual_internal.caller());
    NEW.schedule_id := punctual_internal.new_id(now());
    NEW.created_at := now();
  ELSE
    PERFORM punctual_internal.check_owner('schedule', OLD.name, OLD.owner);
    NEW.created_at := OLD.created_at;
  END IF;
  IF NEW.owner IS DISTINCT FROM OLD.owner
    AND NOT punctual_internal.is_admin() AND NOT punctual_internal.owns(NEW.owner) THEN
    RAISE EXCEPTION 'punctual: "%" is somebody else', NEW.owner USING ERRCODE = 'insufficient_privilege',
      HINT = 'Leave owner out, or ask a member of punctual_admin.';
  ELSIF NEW.owner IS NOT NULL THEN
    PERFORM punctual_internal.check_name('owner', NEW.owner);
  END IF;
  NEW.updated_at := now();
  NEW.description := coalesce(NEW.description, '');
  PERFORM punctual_internal.check_scheduled_job(OLD, NEW);
  IF NEW.schedule IS DISTINCT FROM OLD.schedule THEN
    NEW.schedule := coalesce('@at ' || punctual_internal.instant(punctual_internal.at_of(NEW.schedule)), NEW.schedule);
  END IF;
  RETURN NEW;
END
$$;
CREATE TRIGGER check_insert BEFORE INSERT ON punctual_internal.scheduled_jobs
  FOR EACH ROW WHEN (NEW.syncs = 0) EXECUTE FUNCTION punctual_internal.before_scheduled_job();
CREATE TRIGGER check_update BEFORE UPDATE ON punctual_internal.scheduled_jobs
  FOR EACH ROW WHEN (NEW.syncs = OLD.syncs) EXECUTE FUNCTION punctual_internal.before_scheduled_job();
CREATE TRIGGER check_delete BEFORE DELETE ON punctual_internal.scheduled_jobs
  FOR EACH ROW EXECUTE FUNCTION punctual_internal.before_scheduled_job();

-- What an audit row says of one.
CREATE FUNCTION punctual_internal.told_of(job punctual_internal.scheduled_jobs) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object(
    'name', $1.name, 'description', $1.description, 'function_name', $1.function_name, 'connection', $1.connection,
    'schedule', $1.schedule, 'timezone', $1.timezone, 'enabled', $1.enabled, 'input', $1.input, 'queue', $1.queue,
    'priority', $1.priority, 'serial', $1.serial, 'overlap', $1.overlap, 'missed', $1.missed, 'timeout', $1.timeout,
    'max_attempts', $1.max_attempts, 'jitter', $1.jitter, 'starts_at', $1.starts_at, 'ends_at', $1.ends_at,
    'calendar', $1.calendar, 'labels', $1.labels, 'owner', $1.owner)
$$;

CREATE FUNCTION punctual_internal.make_scheduled_job(m punctual_internal.scheduled_jobs) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moment timestamptz := punctual_internal.at_of(m.schedule);
BEGIN
  INSERT INTO punctual_internal.schedules (
    id, name, description, labels, cron, at, timezone, starts_at, ends_at, calendar, target, input, queue, priority,
    serial, retry, timeout_us, missed, overlap, jitter_us, owner, source, seed, anchor_at, created_at, updated_at)
  VALUES (
    m.schedule_id, m.name, m.description, m.labels, CASE WHEN moment IS NULL THEN m.schedule END, moment, m.timezone,
    m.starts_at, m.ends_at, m.calendar,
    json_build_object('kind', 'sql', 'connection', m.connection, 'function', m.function_name), m.input, m.queue,
    m.priority, m.serial,
    CASE WHEN m.max_attempts IS NULL THEN '{}' ELSE json_build_object('max_attempts', m.max_attempts) END,
    punctual_internal.micros(m.timeout), format('{"policy":"%s"}', m.missed)::json, m.overlap,
    punctual_internal.micros(m.jitter), m.owner, 'sql', m.name, date_trunc('second', now()), now(), now());
  INSERT INTO punctual_internal.schedule_state (schedule_id, enabled, paused_at, paused_by)
  VALUES (m.schedule_id, m.enabled, CASE WHEN NOT m.enabled THEN now() END,
          CASE WHEN NOT m.enabled THEN punctual_internal.caller() END);
  PERFORM punctual_internal.ask(m.schedule_id, 'make');
  PERFORM punctual_internal.audit('schedule.create', 'schedule:' || m.schedule_id, NULL, punctual_internal.told_of(m));
END
$$;

-- Carries over what differs, and leaves alone what SQL does not show.
CREATE FUNCTION punctual_internal.edit_scheduled_job(o punctual_internal.scheduled_jobs,
                                                    m punctual_internal.scheduled_jobs)
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  moment timestamptz := punctual_internal.at_of(m.schedule);
  before punctual_internal.schedule_state := punctual_internal.lock_schedule(m.schedule_id);
  times_differ boolean := (m.schedule, m.timezone, m.starts_at, m.ends_at, m.jitter)
    IS DISTINCT FROM (o.schedule, o.timezone, o.starts_at, o.ends_at, o.jitter);
  told json := punctual_internal.told_of(m);
  switched punctual_internal.scheduled_jobs := o;
BEGIN
  IF told::text = punctual_internal.told_of(o)::text THEN
    RETURN;
  END IF;
  switched.enabled := m.enabled;
  IF told::text <> punctual_internal.told_of(switched)::text THEN
    PERFORM punctual_internal.keep_version(m.schedule_id, now());
    UPDATE punctual_internal.schedules AS s SET
      name = m.name, description = m.description, labels = m.labels,
      cron = CASE WHEN m.schedule = o.schedule THEN s.cron WHEN moment IS NULL THEN m.schedule END,
      every_us = CASE WHEN m.schedule = o.schedule THEN s.every_us END,
      at = CASE WHEN m.schedule = o.schedule THEN s.at ELSE moment END,
      timezone = m.timezone, starts_at = m.starts_at, ends_at = m.ends_at, calendar = m.calendar,
      target = CASE WHEN (m.function_name, m.connection) IS NOT DISTINCT FROM (o.function_name, o.connection)
        THEN s.target
        ELSE json_build_object('kind', 'sql', 'connection', m.connection, 'function', m.function_name) END,
      input = m.input, queue = m.queue, priority = m.priority, serial = m.serial, overlap = m.overlap, owner = m.owner,
      retry = CASE WHEN m.max_attempts IS NOT DISTINCT FROM o.max_attempts THEN s.retry
        WHEN m.max_attempts IS NULL THEN (s.retry::jsonb - 'max_attempts')::json
        ELSE (s.retry::jsonb || jsonb_build_object('max_attempts', m.max_attempts))::json END,
      timeout_us = CASE WHEN m.timeout IS NOT DISTINCT FROM o.timeout THEN s.timeout_us
        ELSE punctual_internal.micros(m.timeout) END,
      missed = CASE WHEN m.missed = o.missed THEN s.missed ELSE format('{"policy":"%s"}', m.missed)::json END,
      jitter_us = CASE WHEN m.jitter = o.jitter THEN s.jitter_us ELSE punctual_internal.micros(m.jitter) END,
      version = s.version + 1, updated_at = now()
    WHERE s.id = m.schedule_id;
    IF times_differ OR before.problem IS NOT NULL AND before.no_executor_since IS NULL THEN
      PERFORM punctual_internal.ask(m.schedule_id, 'edit', s.version - 1)
      FROM punctual_internal.schedules AS s WHERE s.id = m.schedule_id;
    ELSE
      PERFORM pg_catalog.pg_notify('punctual_wake', '');
    END IF;
  END IF;
  IF o.enabled AND NOT m.enabled THEN
    PERFORM punctual_internal.pause(m.schedule_id, NULL, NULL);
  ELSIF m.enabled AND NOT o.enabled THEN
    PERFORM punctual_internal.resume(m.schedule_id);
  END IF;
  PERFORM punctual_internal.audit('schedule.update', 'schedule:' || m.schedule_id, punctual_internal.told_of(o), told);
END
$$;

CREATE FUNCTION punctual_internal.after_scheduled_job() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM punctual_internal.make_scheduled_job(NEW);
  ELSIF TG_OP = 'UPDATE' THEN
    PERFORM punctual_internal.edit_scheduled_job(OLD, NEW);
  ELSIF EXISTS (SELECT 1 FROM punctual_internal.schedules AS s WHERE s.id = OLD.schedule_id AND s.deleted_at IS NULL) THEN
    PERFORM punctual_internal.end_schedule(OLD.schedule_id);
    PERFORM punctual_internal.audit('schedule.delete', 'schedule:' || OLD.schedule_id, punctual_internal.told_of(OLD));
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER carry_insert AFTER INSERT ON punctual_internal.scheduled_jobs
  FOR EACH ROW WHEN (NEW.syncs = 0) EXECUTE FUNCTION punctual_internal.after_scheduled_job();
CREATE TRIGGER carry_update AFTER UPDATE ON punctual_internal.scheduled_jobs
  FOR EACH ROW WHEN (NEW.syncs = OLD.syncs) EXECUTE FUNCTION punctual_internal.after_scheduled_job();
CREATE TRIGGER carry_delete AFTER DELETE ON punctual_internal.scheduled_jobs
  FOR EACH ROW EXECUTE FUNCTION punctual_internal.after_scheduled_job();

REVOKE ALL ON FUNCTION punctual_internal.sync_scheduled_job(uuid) FROM PUBLIC;

SELECT punctual_internal.sync_scheduled_job(s.id) FROM punctual_internal.schedules AS s
WHERE s.deleted_at IS NULL ORDER BY s.created_at, s.id;
