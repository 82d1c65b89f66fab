-- Puts jobs into their queues, in the order given: at an exact place, or behind everything of their priority. A job
-- with a serial key is held until `ready_serial_heads` says otherwise.
INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key,
                                     schedule_id, tags)
SELECT job_id, lane_id, priority, serial_key IS NULL,
       coalesce(position, nextval('punctual_internal.positions') * 1048576), created_at, queued_at, serial_key,
       schedule_id, tags::json
FROM (
  SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bigint[], $5::timestamptz[], $6::timestamptz[],
                       $7::text[], $8::uuid[], $9::text[]) WITH ORDINALITY
    AS w (job_id, lane_id, priority, position, created_at, queued_at, serial_key, schedule_id, tags, n)
  ORDER BY n
) AS w
