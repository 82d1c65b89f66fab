-- The end of both claims: takes out of each lane what was decided, and writes down that it runs. What is the same for
-- all is asked for once and not joined, which would be done for each.
), taken AS (
  DELETE FROM punctual_internal.queue WHERE ctid = ANY (ARRAY(
    SELECT p.ctid FROM quotas
    CROSS JOIN LATERAL (
      SELECT ctid FROM punctual_internal.queue
      WHERE lane_id = quotas.lane_id AND ready
      ORDER BY priority DESC, position, created_at, job_id
      LIMIT quotas.jobs
      FOR UPDATE SKIP LOCKED
    ) AS p))
  RETURNING job_id, lane_id, priority, position, created_at, queued_at, serial_key, schedule_id
), started AS (
  INSERT INTO punctual_internal.running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                         queued_at, serial_key, schedule_id, started_at, limited)
  SELECT job_id, $4, $5, $6, lane_id, priority, position, created_at, queued_at, serial_key, schedule_id, (SELECT at FROM clock),
         (SELECT limited FROM lease)
  FROM taken
  RETURNING job_id, lane_id, priority, position, created_at
)
