-- Out of `running`, by the holder of the lease alone; no row means the lease is lost.
DELETE FROM punctual_running WHERE job_id = ?1 AND node_id = ?2 AND lease_id = ?3
RETURNING started_at, serial_key, schedule_id, cancel_code, cancel_requested_at
