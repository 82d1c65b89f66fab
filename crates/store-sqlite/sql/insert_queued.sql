-- Puts a job into its queue. A job with a serial key is held until `ready_serial_head` says otherwise.
INSERT INTO punctual_queue (job_id, lane_id, priority, position, created_at, queued_at, serial_key, schedule_id, ready)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?7 IS NULL)
