-- The public side of SQL: views, functions and the type that they take. Names, columns and arguments are a promise;
-- tests hold them fast.
--
-- Whoever may use them is told by the roles (`sql/roles/`). The views look with the rights of their owner and let each
-- row through by whom it belongs to; the functions work with the rights of their owner after they have looked who asks.

CREATE VIEW punctual.scheduled_jobs WITH (security_barrier) AS
SELECT m.id, m.name, m.description, m.function_name, m.schedule, m.timezone, m.enabled,
  (SELECT r.last_run_at FROM punctual_internal.schedule_results AS r WHERE r.schedule_id = m.schedule_id) AS last_run_at,
  m.created_at, m.updated_at, m.connection, m.input, m.queue, m.priority, m.serial, m.overlap, m.missed, m.timeout,
  m.max_attempts, m.jitter, m.starts_at, m.ends_at, m.calendar, m.labels, m.owner,
  -- In a SELECT of its own, so that it can be read and not written.
  (SELECT m.schedule_id) AS schedule_id,
  (SELECT s.job_type FROM punctual_internal.schedules AS s WHERE s.id = m.schedule_id) AS kind,
  (SELECT t.next_run_at FROM punctual_internal.schedule_state AS t WHERE t.schedule_id = m.schedule_id) AS next_run_at,
  (SELECT punctual_internal.problem_of(t)
   FROM punctual_internal.schedule_state AS t WHERE t.schedule_id = m.schedule_id) AS problem,
  (SELECT t.paused_at FROM punctual_internal.schedule_state AS t
   WHERE t.schedule_id = m.schedule_id AND NOT t.enabled) AS paused_at,
  (SELECT t.pause_note FROM punctual_internal.schedule_state AS t
   WHERE t.schedule_id = m.schedule_id AND NOT t.enabled) AS pause_note,
  (SELECT t.paused_until FROM punctual_internal.schedule_state AS t
   WHERE t.schedule_id = m.schedule_id AND NOT t.enabled) AS paused_until
FROM punctual_internal.scheduled_jobs AS m
WHERE (SELECT punctual_internal.sees_all()) OR punctual_internal.owns(m.owner);

CREATE VIEW punctual.scheduled_job_runs WITH (security_barrier) AS
SELECT j.id, m.id AS job_id, m.name AS job_name,
  coalesce(r.started_at, g.started_at) AS started_at, r.finished_at AS completed_at,
  (extract(epoch FROM r.finished_at - r.started_at) * 1000)::bigint AS duration_ms,
  CASE r.outcome WHEN 'completed' THEN true WHEN 'failed' THEN false END AS success,
  CASE WHEN r.outcome = 'completed' AND j.target ->> 'function' IS NOT NULL THEN r.output ->> 'message'
    ELSE r.error END AS message,
  CASE WHEN j.target ->> 'function' IS NOT NULL THEN (r.output -> 'details')::text::jsonb END AS details,
  j.slot_at AS scheduled_for,
  CASE j.trigger WHEN 'schedule' THEN 'scheduler' ELSE j.trigger END AS triggered_by,
  j.attempt, coalesce(r.outcome, 'running') AS outcome, r.error_code, n.name AS node, r.output
FROM punctual_internal.scheduled_jobs AS m
JOIN punctual_internal.jobs AS j ON j.schedule_id = m.schedule_id
LEFT JOIN punctual_internal.runs AS r ON r.job_id = j.id
LEFT JOIN punctual_internal.running AS g ON g.job_id = j.id
LEFT JOIN punctual_internal.nodes AS n ON n.id = coalesce(r.node_id, g.node_id)
WHERE (r.job_id IS NOT NULL OR g.job_id IS NOT NULL)
  AND ((SELECT punctual_internal.sees_all()) OR punctual_internal.owns(m.owner));

CREATE VIEW punctual.scheduled_job_status WITH (security_barrier) AS
SELECT m.id AS job_id, m.name, m.enabled, e.last_run_at,
  CASE e.last_outcome WHEN 'completed' THEN true WHEN 'failed' THEN false END AS last_run_success,
  a.total_runs, round(100.0 * a.successes / nullif(a.total_runs, 0), 2) AS success_rate_percent,
  a.avg_duration_ms, a.max_duration_ms,
  (SELECT count(*) FROM punctual_internal.schedule_live AS v
   JOIN punctual_internal.running AS g ON g.job_id = v.job_id WHERE v.schedule_id = m.schedule_id) AS running,
  t.next_run_at, punctual_internal.problem_of(t) AS problem
FROM punctual_internal.scheduled_jobs AS m
JOIN punctual_internal.schedule_state AS t ON t.schedule_id = m.schedule_id
LEFT JOIN punctual_internal.schedule_results AS e ON e.schedule_id = m.schedule_id
CROSS JOIN LATERAL (
  SELECT count(*) AS total_runs, count(*) FILTER (WHERE r.outcome = 'completed') AS successes,
    round(avg(extract(epoch FROM r.finished_at - r.started_at) * 1000), 2) AS avg_duration_ms,
    max((extract(epoch FROM r.finished_at - r.started_at) * 1000)::bigint) AS max_duration_ms
  FROM punctual_internal.jobs AS j JOIN punctual_internal.runs AS r ON r.job_id = j.id
  WHERE j.schedule_id = m.schedule_id AND r.outcome IN ('completed', 'failed')
) AS a
WHERE (SELECT punctual_internal.sees_all()) OR punctual_internal.owns(m.owner);

CREATE VIEW punctual.jobs_overview WITH (security_barrier) AS
SELECT j.id, l.job_type,
  coalesce(r.outcome, CASE WHEN g.job_id IS NOT NULL THEN 'running' WHEN q.job_id IS NOT NULL THEN 'queued'
                        WHEN d.run_at IS NULL THEN 'waiting' ELSE 'scheduled' END) AS state,
  l.queue, coalesce(q.priority, j.priority) AS priority, j.attempt, j.job_key, j.serial_key, j.tags, j.input,
  j.created_at, j.run_at, coalesce(r.started_at, g.started_at) AS started_at, r.finished_at AS completed_at,
  r.error_code, r.error, m.name AS schedule_name, j.owner
FROM punctual_internal.jobs AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
LEFT JOIN punctual_internal.runs AS r ON r.job_id = j.id
LEFT JOIN punctual_internal.running AS g ON g.job_id = j.id
LEFT JOIN punctual_internal.queue AS q ON q.job_id = j.id
LEFT JOIN punctual_internal.delayed AS d ON d.job_id = j.id
LEFT JOIN punctual_internal.scheduled_jobs AS m ON m.schedule_id = j.schedule_id
WHERE (SELECT punctual_internal.sees_all()) OR punctual_internal.owns(j.owner);

CREATE VIEW punctual.slots WITH (security_barrier) AS
SELECT m.id AS job_id, m.name AS job_name, d.slot_at, d.through, d.count, d.decision, d.reason, d.note, d.late_ms,
  d.decided_at, d.job_id AS run_id, n.name AS node
FROM punctual_internal.scheduled_jobs AS m
JOIN punctual_internal.slots AS d ON d.schedule_id = m.schedule_id
LEFT JOIN punctual_internal.nodes AS n ON n.id = d.node_id
WHERE (SELECT punctual_internal.sees_all()) OR punctual_internal.owns(m.owner);

CREATE FUNCTION punctual.trigger_scheduled_job(job_name text, input json DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s punctual_internal.schedules := punctual_internal.own_schedule(job_name);
  j punctual_internal.jobs;
BEGIN
  IF octet_length(input::text) > 1048576 THEN
    RAISE EXCEPTION 'punctual: the input is larger than 1 MiB' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Keep it in a table of your own, and let the function read it.';
  END IF;
  j.id := punctual_internal.new_id(now());
  j.created_at := now();
  j.lane_id := punctual_internal.lane_of(s.queue, s.job_type);
  j.priority := s.priority;
  j.attempt := 1;
  j.failures := 0;
  j.interruptions := 0;
  j.target := s.target;
  j.input := coalesce(input, s.input);
  j.serial_key := CASE WHEN s.serial THEN s.id::text END;
  j.tags := s.tags;
  j.retry := s.retry;
  j.timeout_us := s.timeout_us;
  j.template_id := s.template_id;
  j.grant_id := s.grant_id;
  j.trigger := 'manual';
  j.trigger_detail := punctual_internal.caller();
  j.schedule_id := s.id;
  j.owner := s.owner;
  PERFORM punctual_internal.make_job(j);
  PERFORM punctual_internal.audit('schedule.trigger', 'schedule:' || s.id, NULL, json_build_object('job_id', j.id));
  RETURN jsonb_build_object('success', true, 'run_id', j.id, 'job_name', s.name);
END
$$;

CREATE FUNCTION punctual.pause_schedule(job_name text, note text DEFAULT NULL, until timestamptz DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s punctual_internal.schedules := punctual_internal.own_schedule(job_name);
BEGIN
  IF until <= now() OR NOT isfinite(coalesce(until, now())) THEN
    RAISE EXCEPTION 'punctual: the pause would be over already' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Give a time that lies ahead, or leave until out.';
  ELSIF octet_length(note) > 10000 THEN
    RAISE EXCEPTION 'punctual: the note is longer than 10,000 bytes' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Shorten it.';
  END IF;
  PERFORM punctual_internal.pause(s.id, note, until);
  PERFORM punctual_internal.audit('schedule.pause', 'schedule:' || s.id, NULL,
                                  json_build_object('note', note, 'until', until));
  RETURN jsonb_build_object('success', true, 'job_name', s.name, 'enabled', false, 'paused_until', until);
END
$$;

CREATE FUNCTION punctual.resume_schedule(job_name text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s punctual_internal.schedules := punctual_internal.own_schedule(job_name);
BEGIN
  PERFORM punctual_internal.resume(s.id);
  PERFORM punctual_internal.audit('schedule.resume', 'schedule:' || s.id);
  RETURN jsonb_build_object('success', true, 'job_name', s.name, 'enabled', true);
END
$$;

CREATE FUNCTION punctual.reschedule(job_name text, at timestamptz) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s punctual_internal.schedules := punctual_internal.own_schedule(job_name);
  t punctual_internal.schedule_state := punctual_internal.lock_schedule(s.id);
BEGIN
  PERFORM punctual_internal.check_runs(s, t);
  IF at IS NULL OR at <= now() OR at <= t.fired_through OR at < s.created_at OR NOT isfinite(at) THEN
    RAISE EXCEPTION 'punctual: % is not after now and after the last decided slot', at
      USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Choose a later time, or run it now: SELECT punctual.trigger_scheduled_job(…).';
  ELSIF EXISTS (SELECT 1 FROM punctual_internal.slots AS d WHERE d.schedule_id = s.id AND d.slot_at = $2) THEN
    RAISE EXCEPTION 'punctual: % is a slot that has been decided already', at
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Choose another second, or trigger the schedule.';
  END IF;
  PERFORM punctual_internal.ask(s.id, 'reschedule', NULL, at);
  PERFORM punctual_internal.audit('schedule.reschedule', 'schedule:' || s.id, NULL, json_build_object('at', at));
  RETURN jsonb_build_object('success', true, 'job_name', s.name, 'next_run_at', at);
END
$$;

CREATE FUNCTION punctual.skip_next(job_name text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  s punctual_internal.schedules := punctual_internal.own_schedule(job_name);
  t punctual_internal.schedule_state := punctual_internal.lock_schedule(s.id);
BEGIN
  PERFORM punctual_internal.check_runs(s, t);
  IF t.next_slot_at IS NULL AND t.asked_since IS NULL THEN
    RAISE EXCEPTION 'punctual: the schedule "%" has no next slot', s.name
      USING ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'SELECT problem, ends_at FROM punctual.scheduled_jobs says why.';
  END IF;
  PERFORM punctual_internal.ask(s.id, 'skip_next');
  PERFORM punctual_internal.audit('schedule.skip_next', 'schedule:' || s.id);
  RETURN jsonb_build_object('success', true, 'job_name', s.name, 'skipped', t.next_slot_at);
END
$$;

CREATE TYPE punctual.job_spec AS (
  identifier text, payload json, queue_name text, run_at timestamptz, max_attempts integer, job_key text,
  priority integer, flags text[], queue text, timeout interval, function_name text, connection text, trace_context text
);

-- The document that `enqueue` reads, of one job; what could not be run or read again is refused.
CREATE FUNCTION punctual_internal.job_document(spec punctual.job_spec, job_key_mode text) RETURNS json
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  flag text;
BEGIN
  IF (spec.identifier IS NULL) = (spec.function_name IS NULL) THEN
    RAISE EXCEPTION 'punctual: a job has either an identifier or a function_name'
      USING ERRCODE = 'invalid_parameter_value',
      HINT = 'The identifier is the name of a handler in a program; function_name is a function of the database.';
  ELSIF spec.function_name IS NULL THEN
    PERFORM punctual_internal.check_name('identifier', spec.identifier);
  ELSE
    PERFORM punctual_internal.check_function_name(spec.function_name);
    PERFORM punctual_internal.check_name('connection', coalesce(spec.connection, 'main'));
  END IF;
  PERFORM punctual_internal.check_name('queue', coalesce(spec.queue, 'default'));
  IF spec.queue_name IS NOT NULL THEN
    PERFORM punctual_internal.check_name('queue_name', spec.queue_name);
  END IF;
  IF spec.job_key IS NOT NULL THEN
    PERFORM punctual_internal.check_name('job_key', spec.job_key);
    PERFORM punctual_internal.check_owner('job', j.id::text, j.owner)
    FROM punctual_internal.job_keys AS k
    JOIN punctual_internal.jobs AS j ON j.id = punctual_internal.chain_end(k.job_id)
    WHERE k.key = spec.job_key AND punctual_internal.job_state(j.id) IN ('waiting', 'scheduled', 'queued', 'running');
  END IF;
  IF coalesce(job_key_mode, 'replace') NOT IN ('replace', 'preserve_run_at', 'unsafe_dedupe') THEN
    RAISE EXCEPTION 'punctual: job_key_mode cannot be "%"', job_key_mode USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Use replace, preserve_run_at or unsafe_dedupe.';
  ELSIF octet_length(spec.payload::text) > 1048576 THEN
    RAISE EXCEPTION 'punctual: the payload is larger than 1 MiB' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Keep it in a table of your own, and send its key.';
  ELSIF NOT isfinite(coalesce(spec.run_at, now())) THEN
    RAISE EXCEPTION 'punctual: infinity is not a time' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Leave run_at out to run it now.';
  ELSIF spec.max_attempts NOT BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'punctual: max_attempts is not between 1 and 1000' USING ERRCODE = 'invalid_parameter_value',
      HINT = '1 means no retry.';
  ELSIF spec.timeout < '1 millisecond' OR spec.timeout > '36525 days' THEN
    RAISE EXCEPTION 'punctual: the timeout is not between 1 millisecond and 100 years'
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give a time such as ''5 minutes''.';
  ELSIF cardinality(spec.flags) > 32 THEN
    RAISE EXCEPTION 'punctual: there are more than 32 flags' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Use fewer.';
  ELSIF octet_length(spec.trace_context) > 1000 THEN
    RAISE EXCEPTION 'punctual: the trace context is longer than 1,000 bytes' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'Send a W3C traceparent.';
  END IF;
  FOREACH flag IN ARRAY coalesce(spec.flags, '{}') LOOP
    PERFORM punctual_internal.check_name('flag', flag);
  END LOOP;
  RETURN json_build_object(
    'target', CASE WHEN spec.function_name IS NULL THEN json_build_object('kind', 'task', 'name', spec.identifier)
      ELSE json_build_object('kind', 'sql', 'connection', coalesce(spec.connection, 'main'),
                             'function', spec.function_name) END,
    'input', coalesce(spec.payload, '{}'), 'queue', coalesce(spec.queue, 'default'),
    'priority', -coalesce(spec.priority, 0), 'run_at', spec.run_at, 'serial_key', spec.queue_name,
    'job_key', spec.job_key, 'job_key_mode', coalesce(job_key_mode, 'replace'),
    'tags', CASE WHEN cardinality(spec.flags) > 0 THEN to_json(spec.flags) END,
    'retry', CASE WHEN spec.max_attempts IS NULL THEN '{}'::json
      ELSE json_build_object('max_attempts', spec.max_attempts) END,
    'timeout_us', coalesce(punctual_internal.micros(spec.timeout), 3600000000),
    'trace_context', spec.trace_context, 'owner', punctual_internal.caller());
END
$$;

CREATE FUNCTION punctual.add_job(
  identifier text, payload json DEFAULT NULL, queue_name text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
  max_attempts integer DEFAULT NULL, job_key text DEFAULT NULL, priority integer DEFAULT NULL, flags text[] DEFAULT NULL,
  job_key_mode text DEFAULT 'replace', queue text DEFAULT 'default', timeout interval DEFAULT NULL,
  function_name text DEFAULT NULL, connection text DEFAULT NULL, trace_context text DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT made FROM punctual_internal.enqueue(json_build_array(punctual_internal.job_document(
    ROW(identifier, payload, queue_name, run_at, max_attempts, job_key, priority, flags, queue, timeout, function_name,
        connection, trace_context)::punctual.job_spec, job_key_mode))) AS made);
END
$$;

CREATE FUNCTION punctual.add_jobs(specs punctual.job_spec[], job_key_preserve_run_at boolean DEFAULT false)
RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mode text := CASE WHEN job_key_preserve_run_at THEN 'preserve_run_at' ELSE 'replace' END;
  jobs json;
BEGIN
  SELECT json_agg(punctual_internal.job_document(s.spec, mode) ORDER BY s.n) INTO jobs
  FROM (SELECT w.n, (w.identifier, w.payload, w.queue_name, w.run_at, w.max_attempts, w.job_key, w.priority, w.flags,
                     w.queue, w.timeout, w.function_name, w.connection, w.trace_context)::punctual.job_spec AS spec
        FROM unnest(specs) WITH ORDINALITY AS w (identifier, payload, queue_name, run_at, max_attempts, job_key, priority,
                                                 flags, queue, timeout, function_name, connection, trace_context, n)) AS s;
  IF jobs IS NOT NULL THEN
    RETURN QUERY SELECT made FROM punctual_internal.enqueue(jobs) AS made;
  END IF;
END
$$;

-- A job for somebody who may change it.
CREATE FUNCTION punctual_internal.own_job(wanted uuid) RETURNS punctual_internal.jobs
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j punctual_internal.jobs;
BEGIN
  SELECT * INTO j FROM punctual_internal.jobs AS w WHERE w.id = wanted;
  IF NOT FOUND THEN
    PERFORM punctual_internal.not_found('job', coalesce(wanted::text, ''));
  END IF;
  PERFORM punctual_internal.check_owner('job', wanted::text, j.owner);
  RETURN j;
END
$$;

CREATE FUNCTION punctual.cancel_job(job_id uuid) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j punctual_internal.jobs := punctual_internal.own_job(job_id);
  became text;
BEGIN
  IF j.serial_key IS NOT NULL THEN
    PERFORM punctual_internal.lock_serial_keys(ARRAY[j.serial_key]);
  END IF;
  -- Between two looks a job may be given back or promoted, but hardly three times.
  FOR look IN 1 .. 3 LOOP
    IF EXISTS (SELECT 1 FROM punctual_internal.flow_jobs AS f WHERE f.job_id = j.id)
      AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.job_id = j.id) THEN
      RAISE EXCEPTION 'punctual: the job % is a step of a flow and has not started', j.id
        USING ERRCODE = 'object_not_in_prerequisite_state',
        HINT = 'Cancel the flow itself, or the step by the API or the command line.';
    ELSIF punctual_internal.close_waiting(j.id, 'cancelled') THEN
      IF j.serial_key IS NOT NULL THEN
        PERFORM punctual_internal.settle_serial_keys(ARRAY[j.serial_key]);
      END IF;
      became := 'cancelled';
      EXIT;
    END IF;
    UPDATE punctual_internal.running AS g
    SET cancel_requested_at = coalesce(g.cancel_requested_at, now()), cancel_code = coalesce(g.cancel_code, 'cancelled')
    WHERE g.job_id = j.id;
    IF FOUND THEN
      became := 'stopping';
      EXIT;
    ELSIF EXISTS (SELECT 1 FROM punctual_internal.runs AS r WHERE r.job_id = j.id) THEN
      RAISE EXCEPTION 'punctual: the job % has ended already: it is %', j.id, punctual_internal.job_state(j.id)
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'SELECT punctual.retry_job(…) runs it again.';
    END IF;
  END LOOP;
  IF became IS NULL THEN
    RAISE EXCEPTION 'punctual: the job % keeps changing its place', j.id USING ERRCODE = 'serialization_failure',
      HINT = 'Try again.';
  END IF;
  PERFORM pg_catalog.pg_notify('punctual_wake', '');
  PERFORM punctual_internal.audit('job.cancel', 'job:' || j.id, NULL, json_build_object('cancelled', became));
  RETURN jsonb_build_object('success', true, 'run_id', j.id, 'state', became);
END
$$;

CREATE FUNCTION punctual.retry_job(job_id uuid) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  j punctual_internal.jobs := punctual_internal.own_job(job_id);
  r punctual_internal.runs;
  failed integer;
  interrupted integer;
BEGIN
  SELECT * INTO r FROM punctual_internal.runs AS w WHERE w.job_id = j.id;
  IF NOT FOUND OR r.outcome = 'completed' THEN
    RAISE EXCEPTION 'punctual: the job % is %', j.id, punctual_internal.job_state(j.id)
      USING ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'Only what has ended without success is retried; add a new job to do the same work again.';
  ELSIF EXISTS (SELECT 1 FROM punctual_internal.flow_jobs AS f WHERE f.job_id = j.id) THEN
    RAISE EXCEPTION 'punctual: the job % is a step of a flow', j.id USING ERRCODE = 'object_not_in_prerequisite_state',
      HINT = 'Retry the flow itself: it begins again at the step that failed.';
  END IF;
  IF j.schedule_id IS NOT NULL THEN
    PERFORM 1 FROM punctual_internal.schedules AS s WHERE s.id = j.schedule_id AND s.deleted_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
      RAISE EXCEPTION 'punctual: the schedule of the job % is deleted', j.id
        USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Add a new job to do the same work.';
    END IF;
  END IF;
  interrupted := (r.outcome = 'failed' AND r.error_code IN ('node_lost', 'interrupted'))::integer;
  failed := (r.outcome = 'failed')::integer - interrupted;
  j.root_job_id := coalesce(j.root_job_id, j.id);
  j.chain_began_at := coalesce(j.chain_began_at, j.created_at);
  j.retry_of := j.id;
  j.id := punctual_internal.new_id(now());
  j.created_at := now();
  j.attempt := j.attempt + 1;
  j.failures := j.failures + failed;
  j.interruptions := j.interruptions + interrupted;
  j.run_at := NULL;
  j.trigger := 'retry';
  j.trigger_detail := punctual_internal.caller();
  BEGIN
    INSERT INTO punctual_internal.retries (retry_of, job_id) VALUES (j.retry_of, j.id);
  EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'punctual: the job % has been retried already', j.retry_of
      USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Retry the job that followed it.';
  END;
  PERFORM punctual_internal.make_job(j);
  PERFORM punctual_internal.audit('job.retry', 'job:' || j.id, NULL, json_build_object('retry_of', j.retry_of));
  RETURN j.id;
END
$$;

CREATE FUNCTION punctual.set_owner_checks(switched_on boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT punctual_internal.is_admin() THEN
    RAISE EXCEPTION 'punctual: only a member of punctual_admin switches the owner checks'
      USING ERRCODE = 'insufficient_privilege', HINT = 'Ask one.';
  ELSIF switched_on THEN
    INSERT INTO punctual_internal.owner_checks (id) VALUES (1) ON CONFLICT (id) DO NOTHING;
  ELSE
    DELETE FROM punctual_internal.owner_checks;
  END IF;
  PERFORM punctual_internal.audit('settings.update', 'settings', NULL,
                                  json_build_object('owner_checks', coalesce(switched_on, false)));
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA punctual FROM PUBLIC;

-- The documentation where people who know SQL look for it: \d+ in psql.
COMMENT ON SCHEMA punctual IS 'Punctual: schedules and jobs for everybody who knows SQL.';
COMMENT ON VIEW punctual.scheduled_jobs IS
  'Schedules, one row each: INSERT registers one, UPDATE edits it, DELETE ends it; ON CONFLICT (name) works. What'
  ' you write takes effect within a second.';
COMMENT ON COLUMN punctual.scheduled_jobs.id IS 'A number for each, to join with job_id of the other views.';
COMMENT ON COLUMN punctual.scheduled_jobs.name IS 'Its name; unique.';
COMMENT ON COLUMN punctual.scheduled_jobs.description IS 'For people.';
COMMENT ON COLUMN punctual.scheduled_jobs.function_name IS
  'The SQL function that each run calls, written as SQL does: my_job, my_schema.my_job, "My Schema"."My Job". It '
  'takes one jsonb or nothing, and returns jsonb {"success": …, "message": …, "details": …}. Null when the '
  'schedule does something else.';
COMMENT ON COLUMN punctual.scheduled_jobs.schedule IS
  'When: five cron fields (minute hour day-of-month month day-of-week), six with seconds first, @daily and the '
  'like, @every 5m, or @at 2026-12-01T08:00:00Z.';
COMMENT ON COLUMN punctual.scheduled_jobs.timezone IS 'The zone that the schedule is read in, such as Europe/Berlin.';
COMMENT ON COLUMN punctual.scheduled_jobs.enabled IS 'False pauses it: nothing is due until it is true again.';
COMMENT ON COLUMN punctual.scheduled_jobs.last_run_at IS 'When its last run ended. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.created_at IS 'When it was registered. Set by Punctual.';
COMMENT ON COLUMN punctual.scheduled_jobs.updated_at IS 'When it was last edited. Set by Punctual.';
COMMENT ON COLUMN punctual.scheduled_jobs.connection IS
  'The name by which the workers know the database that the function is in.';
COMMENT ON COLUMN punctual.scheduled_jobs.input IS 'What each run gives the function.';
COMMENT ON COLUMN punctual.scheduled_jobs.queue IS 'The queue its runs wait in.';
COMMENT ON COLUMN punctual.scheduled_jobs.priority IS 'The priority of its runs; larger goes first.';
COMMENT ON COLUMN punctual.scheduled_jobs.serial IS
  'Whether its runs go one at a time, in order, on all workers together.';
COMMENT ON COLUMN punctual.scheduled_jobs.overlap IS
  'What a time does while a run is still alive: allow, forbid, replace or queue_one.';
COMMENT ON COLUMN punctual.scheduled_jobs.missed IS
  'What happens to times that passed while nobody could run them: skip, once or all.';
COMMENT ON COLUMN punctual.scheduled_jobs.timeout IS 'How long a run may take; null for no limit.';
COMMENT ON COLUMN punctual.scheduled_jobs.max_attempts IS
  'How often a run may fail before that is the end; null for the usual 3.';
COMMENT ON COLUMN punctual.scheduled_jobs.jitter IS
  'Each run starts up to this much later, by an amount fixed for its time.';
COMMENT ON COLUMN punctual.scheduled_jobs.starts_at IS 'It is not due before this.';
COMMENT ON COLUMN punctual.scheduled_jobs.ends_at IS 'It is not due after this.';
COMMENT ON COLUMN punctual.scheduled_jobs.calendar IS 'A calendar whose days are left out.';
COMMENT ON COLUMN punctual.scheduled_jobs.labels IS 'For people and filters: {"team": "billing"}.';
COMMENT ON COLUMN punctual.scheduled_jobs.owner IS
  'The role that registered it. Its owner and members of punctual_admin may change it.';
COMMENT ON COLUMN punctual.scheduled_jobs.schedule_id IS 'Its id in the API. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.kind IS
  'What a worker must offer to run it, such as sql:main or command. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.next_run_at IS
  'When it is due next; null while it is paused, has nothing ahead, or was just changed. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.problem IS 'Why it cannot run, in words; null when all is well. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.paused_at IS 'Since when it is paused. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.pause_note IS 'Why it is paused. Read-only.';
COMMENT ON COLUMN punctual.scheduled_jobs.paused_until IS 'When it goes on by itself. Read-only.';
COMMENT ON VIEW punctual.scheduled_job_runs IS
  'Runs of schedules, those that run now among them; one row for each attempt.';
COMMENT ON COLUMN punctual.scheduled_job_runs.id IS
  'The run. It is the run_id that trigger_scheduled_job answers with.';
COMMENT ON COLUMN punctual.scheduled_job_runs.job_id IS 'The id in scheduled_jobs.';
COMMENT ON COLUMN punctual.scheduled_job_runs.job_name IS 'The name in scheduled_jobs.';
COMMENT ON COLUMN punctual.scheduled_job_runs.started_at IS 'When it started; null when it was cancelled before.';
COMMENT ON COLUMN punctual.scheduled_job_runs.completed_at IS 'When it ended; null while it runs.';
COMMENT ON COLUMN punctual.scheduled_job_runs.duration_ms IS 'How long it took, in milliseconds.';
COMMENT ON COLUMN punctual.scheduled_job_runs.success IS
  'True when it completed, false when it failed, null while it runs and when it was cancelled or skipped.';
COMMENT ON COLUMN punctual.scheduled_job_runs.message IS 'What the function said, or why the run failed.';
COMMENT ON COLUMN punctual.scheduled_job_runs.details IS 'The details that the function answered with.';
COMMENT ON COLUMN punctual.scheduled_job_runs.scheduled_for IS
  'The time that it was due; null when somebody triggered it.';
COMMENT ON COLUMN punctual.scheduled_job_runs.triggered_by IS
  'scheduler, manual, catchup, backfill, retry or dependency.';
COMMENT ON COLUMN punctual.scheduled_job_runs.attempt IS '1 for the first try.';
COMMENT ON COLUMN punctual.scheduled_job_runs.outcome IS 'running, completed, failed, skipped or cancelled.';
COMMENT ON COLUMN punctual.scheduled_job_runs.error_code IS
  'The kind of failure, such as target_error, timeout or node_lost.';
COMMENT ON COLUMN punctual.scheduled_job_runs.node IS 'The worker that ran it.';
COMMENT ON COLUMN punctual.scheduled_job_runs.output IS 'Everything that the run answered with.';
COMMENT ON VIEW punctual.scheduled_job_status IS
  'How each schedule does: its last run, its success rate, and when it is due next.';
COMMENT ON COLUMN punctual.scheduled_job_status.job_id IS 'The id in scheduled_jobs.';
COMMENT ON COLUMN punctual.scheduled_job_status.name IS 'Its name.';
COMMENT ON COLUMN punctual.scheduled_job_status.enabled IS 'Whether it is running (true) or paused (false).';
COMMENT ON COLUMN punctual.scheduled_job_status.last_run_at IS 'When its last run ended.';
COMMENT ON COLUMN punctual.scheduled_job_status.last_run_success IS
  'Whether that one completed (true) or failed (false).';
COMMENT ON COLUMN punctual.scheduled_job_status.total_runs IS
  'Runs that completed or failed, each attempt counted, as far back as history is kept.';
COMMENT ON COLUMN punctual.scheduled_job_status.success_rate_percent IS
  'How many of them completed, of 100; null without any.';
COMMENT ON COLUMN punctual.scheduled_job_status.avg_duration_ms IS 'How long they took on average, in milliseconds.';
COMMENT ON COLUMN punctual.scheduled_job_status.max_duration_ms IS 'How long the longest took, in milliseconds.';
COMMENT ON COLUMN punctual.scheduled_job_status.running IS 'How many run now.';
COMMENT ON COLUMN punctual.scheduled_job_status.next_run_at IS 'When it is due next.';
COMMENT ON COLUMN punctual.scheduled_job_status.problem IS 'Why it cannot run, in words; null when all is well.';
COMMENT ON VIEW punctual.jobs_overview IS 'All jobs, with or without a schedule, and where each stands.';
COMMENT ON COLUMN punctual.jobs_overview.id IS 'The job.';
COMMENT ON COLUMN punctual.jobs_overview.job_type IS
  'What a worker must offer to run it: task:NAME, sql:CONNECTION, command, http, flow or graph.';
COMMENT ON COLUMN punctual.jobs_overview.state IS
  'scheduled, waiting, queued, running, completed, failed, skipped or cancelled.';
COMMENT ON COLUMN punctual.jobs_overview.queue IS 'Its queue.';
COMMENT ON COLUMN punctual.jobs_overview.priority IS 'Its priority; larger goes first.';
COMMENT ON COLUMN punctual.jobs_overview.attempt IS '1 for the first try.';
COMMENT ON COLUMN punctual.jobs_overview.job_key IS 'The key of which only one job waits at a time.';
COMMENT ON COLUMN punctual.jobs_overview.serial_key IS 'The key of which only one job runs at a time.';
COMMENT ON COLUMN punctual.jobs_overview.tags IS 'Its tags, which limits count.';
COMMENT ON COLUMN punctual.jobs_overview.input IS 'What it is given.';
COMMENT ON COLUMN punctual.jobs_overview.created_at IS 'When it was made.';
COMMENT ON COLUMN punctual.jobs_overview.run_at IS 'Not before this; null for at once.';
COMMENT ON COLUMN punctual.jobs_overview.started_at IS 'When it started.';
COMMENT ON COLUMN punctual.jobs_overview.completed_at IS 'When it ended, however it did.';
COMMENT ON COLUMN punctual.jobs_overview.error_code IS 'The kind of failure.';
COMMENT ON COLUMN punctual.jobs_overview.error IS 'What went wrong.';
COMMENT ON COLUMN punctual.jobs_overview.schedule_name IS 'The schedule it was made for.';
COMMENT ON COLUMN punctual.jobs_overview.owner IS 'Whose it is.';
COMMENT ON VIEW punctual.slots IS 'The ledger: every time that a schedule was due, what was decided about it, and why.';
COMMENT ON COLUMN punctual.slots.job_id IS 'The id in scheduled_jobs.';
COMMENT ON COLUMN punctual.slots.job_name IS 'The name in scheduled_jobs.';
COMMENT ON COLUMN punctual.slots.slot_at IS 'The time, or the first of a range of times.';
COMMENT ON COLUMN punctual.slots.through IS 'The last of the range.';
COMMENT ON COLUMN punctual.slots.count IS 'How many times the row stands for.';
COMMENT ON COLUMN punctual.slots.decision IS 'fired, skipped or missed.';
COMMENT ON COLUMN punctual.slots.reason IS 'Why: on_time, catchup, overlap, calendar, paused, rescheduled, too_late, …';
COMMENT ON COLUMN punctual.slots.note IS 'The reason in more words.';
COMMENT ON COLUMN punctual.slots.late_ms IS 'How long after it was due this was decided, in milliseconds.';
COMMENT ON COLUMN punctual.slots.decided_at IS 'When it was decided.';
COMMENT ON COLUMN punctual.slots.run_id IS 'The run that was made for it.';
COMMENT ON COLUMN punctual.slots.node IS 'The node that decided.';
COMMENT ON TYPE punctual.job_spec IS 'One job of add_jobs; what is null is as usual.';
COMMENT ON COLUMN punctual.job_spec.identifier IS 'The name of the handler that runs it.';
COMMENT ON COLUMN punctual.job_spec.payload IS 'What the handler is given.';
COMMENT ON COLUMN punctual.job_spec.queue_name IS 'Jobs with the same name run one at a time, in order.';
COMMENT ON COLUMN punctual.job_spec.run_at IS 'Not before this.';
COMMENT ON COLUMN punctual.job_spec.max_attempts IS 'How often it may fail before that is the end.';
COMMENT ON COLUMN punctual.job_spec.job_key IS 'Of jobs with this key only one waits at a time.';
COMMENT ON COLUMN punctual.job_spec.priority IS 'Smaller goes first.';
COMMENT ON COLUMN punctual.job_spec.flags IS 'Tags, which limits count.';
COMMENT ON COLUMN punctual.job_spec.queue IS 'The queue it waits in.';
COMMENT ON COLUMN punctual.job_spec.timeout IS 'How long it may run; an hour when null.';
COMMENT ON COLUMN punctual.job_spec.function_name IS 'A SQL function to call, instead of a handler.';
COMMENT ON COLUMN punctual.job_spec.connection IS
  'The database that the function is in, by the name that workers know.';
COMMENT ON COLUMN punctual.job_spec.trace_context IS 'A W3C traceparent that the run carries on.';
COMMENT ON FUNCTION punctual.trigger_scheduled_job(text, json) IS
  'Runs a schedule now, once, with another input if one is given. The next regular time stays as it is. For its '
  'owner and admins.';
COMMENT ON FUNCTION punctual.pause_schedule(text, text, timestamptz) IS
  'Pauses a schedule, with a note for others, and until a time if one is given. For its owner and admins.';
COMMENT ON FUNCTION punctual.resume_schedule(text) IS
  'Lets a paused schedule go on. What it missed meanwhile is in the ledger, and is not made up for. For its owner'
  ' and admins.';
COMMENT ON FUNCTION punctual.reschedule(text, timestamptz) IS
  'Moves the next run of a schedule to another time; after that it goes on as before. For its owner and admins.';
COMMENT ON FUNCTION punctual.skip_next(text) IS 'Leaves out the next time of a schedule. For its owner and admins.';
COMMENT ON FUNCTION punctual.add_job(text, json, text, timestamptz, integer, text, integer, text[], text, text, interval, text, text, text) IS
  'Adds a job inside your transaction: it is there when you commit, and never was when you roll back. Answers '
  'with its id. queue_name makes jobs run one at a time; a smaller priority goes first.';
COMMENT ON FUNCTION punctual.add_jobs(punctual.job_spec[], boolean) IS
  'Adds several jobs inside your transaction, all or none, and answers with their ids in the same order.';
COMMENT ON FUNCTION punctual.cancel_job(uuid) IS
  'Cancels a job that waits, and asks one that runs to stop. For its owner and admins.';
COMMENT ON FUNCTION punctual.retry_job(uuid) IS
  'Runs a job that failed or was cancelled once more, and answers with the id of the new attempt. For its owner '
  'and admins.';
COMMENT ON FUNCTION punctual.set_owner_checks(boolean) IS
  'Whether everybody but admins sees only what belongs to him. For admins.';
