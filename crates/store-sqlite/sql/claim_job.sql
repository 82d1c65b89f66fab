-- Out of the queue; the answer goes into `running` in the same transaction.
DELETE FROM punctual_queue WHERE job_id = ?1
RETURNING lane_id, priority, position, created_at, queued_at, serial_key, schedule_id
