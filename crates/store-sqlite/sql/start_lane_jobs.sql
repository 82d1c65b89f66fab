-- The same jobs into `running`, with the places to which they go back if they never start.
--
-- Differs from PostgreSQL, where one statement takes and starts them: here RETURNING would make a table for each call.
INSERT INTO punctual_running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at, queued_at,
                              serial_key, schedule_id, started_at)
SELECT job_id, ?3, ?4, ?5, lane_id, priority, position, created_at, queued_at, serial_key, schedule_id, ?6
FROM punctual_queue
WHERE lane_id = ?1 AND ready = 1
ORDER BY priority DESC, position, created_at, job_id
LIMIT ?2
