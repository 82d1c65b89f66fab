-- Makes one job of the kind that `make_jobs_alike` makes many of: what most callers enqueue. The same answer. Without
-- lists, because getting a statement with lists ready costs more than the one row that it writes.
WITH clock AS MATERIALIZED (
  SELECT t.at, (punctual_internal.id_prefix(t.at) || $2::text)::uuid AS id, l.id AS lane_id
  FROM (SELECT coalesce($1, now())) AS t (at)
  CROSS JOIN punctual_internal.lanes AS l
  WHERE l.queue = $7 AND l.job_type = $8 AND l.tags = '{}'
), made AS (
  INSERT INTO punctual_internal.jobs (
    id, created_at, lane_id, priority, target, input, serial_key, trace_context, tags, retry, timeout_us, template_id,
    grant_id, trigger, trigger_detail, owner)
  SELECT id, at, lane_id, $9::integer, $3::text::json, $4::text::json, $5::text, $6::text, $10::text::json,
         $11::text::json, $12::bigint, $13::uuid, $14::uuid, $15::text, $16::text, $17::text
  FROM clock
), queued AS (
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key,
                                       tags)
  SELECT id, lane_id, $9, $5 IS NULL, nextval('punctual_internal.positions') * 1048576, at, at, $5, $10::text::json
  FROM clock
)
SELECT at, CASE
  WHEN pg_sequence_last_value('punctual_internal.waits') > pg_sequence_last_value('punctual_internal.told')
    AND setval('punctual_internal.told', pg_sequence_last_value('punctual_internal.waits')) > 0
  THEN pg_notify('punctual_wake', 'work')
END
FROM clock
