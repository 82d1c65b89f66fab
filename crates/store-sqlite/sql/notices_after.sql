-- Notices in order of time.
SELECT id, created_at, kind, job_id, schedule_id, node_id, payload FROM punctual_outbox
WHERE id > ?1 ORDER BY id LIMIT ?2
