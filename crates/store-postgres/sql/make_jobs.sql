-- Makes jobs and puts each where it belongs, in the order given: into `delayed` when its time is ahead, else into its
-- queue; or nowhere yet, when the caller gives the place itself. A job with a serial key is held until
-- `ready_serial_heads` says otherwise. The answer is the ids, or nothing at all when a lane has to be made first.
--
-- Differs from SQLite: a whole batch in one statement, and so in one round trip, with ids made of the database's time.
WITH clock AS MATERIALIZED (
  SELECT at, punctual_internal.id_prefix(at) AS prefix FROM (SELECT coalesce($1, now())) AS t (at)
), wanted AS MATERIALIZED (
  SELECT (clock.prefix || w.tail)::uuid AS id, clock.at AS made_at, l.id AS lane_id, w.*
  FROM clock
  CROSS JOIN unnest(
    $3::text[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::text[], $9::timestamptz[], $10::text[],
    $11::text[], $12::text[], $13::bigint[], $14::uuid[], $15::uuid[], $16::text[], $17::text[], $18::text[],
    $19::uuid[], $20::timestamptz[], $21::uuid[], $22::uuid[], $23::timestamptz[], $24::integer[], $25::integer[],
    $26::integer[], $27::text[])
    WITH ORDINALITY
    AS w (tail, queue, job_type, priority, target, input, run_at, serial_key, tags, retry, timeout_us, template_id,
          grant_id, trigger, trigger_detail, trace_context, schedule_id, slot_at, retry_of, root_job_id, chain_began_at,
          attempt, failures, interruptions, owner, n)
  LEFT JOIN punctual_internal.lanes AS l ON l.queue = w.queue AND l.job_type = w.job_type
), whole AS MATERIALIZED (
  SELECT count(*) = count(lane_id) AS known FROM wanted
), made AS (
  INSERT INTO punctual_internal.jobs (
    id, created_at, lane_id, priority, target, input, run_at, serial_key, tags, retry, timeout_us, template_id, grant_id,
    trigger, trigger_detail, trace_context, schedule_id, slot_at, retry_of, root_job_id, chain_began_at, attempt,
    failures, interruptions, owner)
  SELECT id, made_at, lane_id, priority, target::json, input::json, run_at, serial_key, tags::json, retry::json,
         timeout_us, template_id, grant_id, trigger, trigger_detail, trace_context, schedule_id, slot_at, retry_of,
         root_job_id, chain_began_at, attempt, failures, interruptions, owner
  FROM wanted WHERE (SELECT known FROM whole)
), live AS (
  INSERT INTO punctual_internal.schedule_live (schedule_id, job_id)
  SELECT schedule_id, id FROM wanted WHERE schedule_id IS NOT NULL AND (SELECT known FROM whole)
), later AS (
  INSERT INTO punctual_internal.delayed (job_id, run_at)
  SELECT id, run_at FROM wanted WHERE run_at > made_at AND $2 AND (SELECT known FROM whole)
), queued AS (
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key,
                                       schedule_id)
  SELECT id, lane_id, priority, serial_key IS NULL, nextval('punctual_internal.positions') * 1048576, made_at, made_at,
         serial_key, schedule_id
  FROM (SELECT * FROM wanted WHERE (run_at > made_at) IS NOT TRUE AND $2 AND (SELECT known FROM whole) ORDER BY n) AS w
)
SELECT id FROM wanted WHERE (SELECT known FROM whole) ORDER BY n
