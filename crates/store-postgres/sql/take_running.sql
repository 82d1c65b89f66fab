-- Out of `running`, by the holder of the lease alone; a job without a row has lost its lease.
DELETE FROM punctual_internal.running WHERE job_id = ANY ($1) AND node_id = $2 AND lease_id = $3
RETURNING job_id, started_at, serial_key, schedule_id, cancel_code, cancel_requested_at
