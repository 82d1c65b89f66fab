-- The first jobs of a lane, which a claim is about to take.
SELECT j.*
FROM (
  SELECT job_id FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1
  ORDER BY priority DESC, position, created_at, job_id
  LIMIT ?2
) AS s
CROSS JOIN punctual_job_rows AS j ON j.id = s.job_id
