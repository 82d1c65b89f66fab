-- Into `running`, with the place to which the job goes back if it never starts.
INSERT INTO punctual_running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at, queued_at,
                              serial_key, schedule_id, started_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
