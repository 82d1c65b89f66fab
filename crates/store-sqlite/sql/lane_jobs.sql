-- The first jobs of a lane with their places, which a claim is about to take.
SELECT s.priority, s.position, s.created_at, s.job_id, j.*
FROM (
  SELECT priority, position, created_at, job_id FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1
  ORDER BY priority DESC, position, created_at, job_id
  LIMIT ?2
) AS s
CROSS JOIN punctual_job_rows AS j ON j.id = s.job_id
