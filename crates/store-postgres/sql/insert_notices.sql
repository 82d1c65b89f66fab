-- Puts news into the outbox.
INSERT INTO punctual_internal.outbox (id, created_at, kind, job_id, schedule_id, node_id, payload)
SELECT w.id, $1, w.kind, w.job_id, w.schedule_id, w.node_id, w.payload::json
FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[])
  AS w (id, kind, job_id, schedule_id, node_id, payload)
