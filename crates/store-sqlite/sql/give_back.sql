-- Out of `running` and back to the exact place, by the holder of the lease alone.
DELETE FROM punctual_running WHERE job_id = ?1 AND node_id = ?2 AND lease_id = ?3 AND cancel_requested_at IS NULL
RETURNING lane_id, priority, position, created_at, queued_at, serial_key, schedule_id
