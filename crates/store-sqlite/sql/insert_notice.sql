-- Puts news into the outbox.
INSERT INTO punctual_outbox (id, created_at, kind, job_id, schedule_id, node_id, payload)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
