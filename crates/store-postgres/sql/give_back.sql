-- Out of `running`, to go back to the exact place, by the holder of the lease alone.
--
-- The fence as in `take_running`.
WITH taken AS (
  DELETE FROM punctual_internal.running
  WHERE job_id = ANY ($1) AND node_id = $2 AND (lease_id = $3) IS TRUE AND cancel_requested_at IS NULL
  RETURNING job_id, lane_id, priority, position, created_at, queued_at, serial_key, schedule_id
)
SELECT taken.*, j.tags::text FROM taken
CROSS JOIN LATERAL (SELECT tags FROM punctual_internal.jobs WHERE id = taken.job_id OFFSET 0) AS j
