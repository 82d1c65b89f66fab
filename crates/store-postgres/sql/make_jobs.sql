-- Makes jobs and puts each where it belongs, in the order given: into `delayed` when its time is ahead, else into its
-- queue; or nowhere yet, when the caller gives the place itself. A job with a serial key is held until
-- `ready_serial_heads` says otherwise. The answer is the instant they were made at, or nothing at all when a lane has
-- to be made first. Nodes are told in the same statement if one has begun to wait since the last time (`waits`), or if
-- a delayed job comes before all others.
--
-- Differs from SQLite: a whole batch in one statement, and so in one round trip, with ids made of the database's time.
-- What jobs have in common travels once, as their kind, and a list that is too short is filled up with nulls, because
-- the width of `unnest` is what a batch costs.
WITH clock AS MATERIALIZED (
  SELECT at, punctual_internal.id_prefix(at) AS prefix FROM (SELECT coalesce($1, now())) AS t (at)
), kinds AS MATERIALIZED (
  SELECT w.n, l.id AS lane_id, w.priority, w.retry::json, w.timeout_us, w.template_id, w.grant_id, w.trigger,
         w.trigger_detail, w.tags::json, w.owner
  FROM unnest($18::text[], $19::text[], $20::integer[], $21::text[], $22::bigint[], $23::uuid[], $24::uuid[],
              $25::text[], $26::text[], $27::text[], $30::text[])
    WITH ORDINALITY
    AS w (queue, job_type, priority, retry, timeout_us, template_id, grant_id, trigger, trigger_detail, tags,
          owner, n)
  LEFT JOIN punctual_internal.lanes AS l ON l.queue = w.queue AND l.job_type = w.job_type AND l.tags = '{}'
), wanted AS MATERIALIZED (
  SELECT (clock.prefix || w.tail)::uuid AS id, clock.at AS made_at, coalesce(w.kind, 1) AS kind_n, w.*
  FROM clock
  CROSS JOIN unnest(
    $3::text[], $4::integer[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[], $9::timestamptz[], $10::text[],
    $11::text[], $12::uuid[], $13::uuid[], $14::timestamptz[], $15::integer[], $16::integer[], $17::integer[],
    $28::text[], $29::text[])
    WITH ORDINALITY
    AS w (tail, kind, target, input, schedule_id, slot_at, run_at, serial_key, trace_context, retry_of, root_job_id,
          chain_began_at, attempt, failures, interruptions, job_key, job_key_mode, n)
  WHERE NOT EXISTS (SELECT 1 FROM kinds WHERE lane_id IS NULL)
), made AS (
  INSERT INTO punctual_internal.jobs (
    id, created_at, lane_id, priority, target, input, run_at, serial_key, tags, retry, timeout_us, template_id, grant_id,
    trigger, trigger_detail, trace_context, schedule_id, slot_at, retry_of, root_job_id, chain_began_at, attempt,
    failures, interruptions, job_key, job_key_mode, owner)
  SELECT w.id, w.made_at, k.lane_id, k.priority, w.target::json, w.input::json, w.run_at, w.serial_key, k.tags, k.retry,
         k.timeout_us, k.template_id, k.grant_id, k.trigger, k.trigger_detail, w.trace_context, w.schedule_id,
         w.slot_at, w.retry_of, w.root_job_id, w.chain_began_at, coalesce(w.attempt, 1), coalesce(w.failures, 0),
         coalesce(w.interruptions, 0), w.job_key, w.job_key_mode, k.owner
  FROM wanted AS w JOIN kinds AS k ON k.n = w.kind_n
), queued AS (
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key,
                                       schedule_id, tags)
  SELECT id, lane_id, priority, serial_key IS NULL, nextval('punctual_internal.positions') * 1048576, made_at, made_at,
         serial_key, schedule_id, tags
  FROM (
    SELECT w.id, k.lane_id, k.priority, w.made_at, w.serial_key, w.schedule_id, k.tags
    FROM wanted AS w JOIN kinds AS k ON k.n = w.kind_n
    WHERE (w.run_at > w.made_at) IS NOT TRUE AND $2
    ORDER BY w.n
  ) AS w
), live AS (
  INSERT INTO punctual_internal.schedule_live (schedule_id, job_id)
  SELECT schedule_id, id FROM wanted WHERE schedule_id IS NOT NULL
), later AS (
  INSERT INTO punctual_internal.delayed (job_id, run_at)
  SELECT id, run_at FROM wanted WHERE run_at > made_at AND $2
)
SELECT at, CASE
  WHEN $2 AND pg_sequence_last_value('punctual_internal.waits') > pg_sequence_last_value('punctual_internal.told')
    AND setval('punctual_internal.told', pg_sequence_last_value('punctual_internal.waits')) > 0
  THEN pg_notify('punctual_wake', '')
END, (
  SELECT pg_notify('punctual_wake', '') FROM wanted WHERE run_at > made_at AND $2
  HAVING min(run_at) < (SELECT coalesce(min(run_at), 'infinity') FROM punctual_internal.delayed
                        WHERE run_at IS NOT NULL)
)
FROM clock WHERE NOT EXISTS (SELECT 1 FROM kinds WHERE lane_id IS NULL)
