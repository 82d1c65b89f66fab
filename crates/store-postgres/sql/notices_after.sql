-- Notices in order of time.
SELECT id, created_at, kind, job_id, schedule_id, node_id, payload::text FROM punctual_internal.outbox
WHERE id > $1 ORDER BY id LIMIT $2
