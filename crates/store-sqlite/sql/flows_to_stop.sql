-- Flows that somebody wants to stop, and those whose time is over; not those that stop already.
SELECT * FROM (
  SELECT g.job_id, coalesce(g.cancel_code, 'cancelled')
  FROM punctual_running AS g CROSS JOIN punctual_flow_runs AS f ON f.job_id = g.job_id
  WHERE g.lease_id IS NULL AND g.cancel_requested_at IS NOT NULL
    AND f.ended_at IS NULL AND (f.stopping IS NULL OR f.stopping = 'dependency_failed')
  LIMIT ?2)
UNION ALL
SELECT * FROM (
  SELECT job_id, 'timeout' FROM punctual_flow_runs
  WHERE deadline IS NOT NULL AND deadline <= ?1
    AND ended_at IS NULL AND (stopping IS NULL OR stopping = 'dependency_failed')
  ORDER BY deadline, job_id LIMIT ?2)
