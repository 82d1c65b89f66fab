-- What the rules have not taken in, oldest first.
SELECT id, created_at, kind, job_id, schedule_id, node_id, payload FROM punctual_outbox
WHERE delivered_at IS NULL ORDER BY id LIMIT ?1
