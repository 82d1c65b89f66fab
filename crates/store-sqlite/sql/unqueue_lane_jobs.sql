-- The same jobs out of the queue.
DELETE FROM punctual_queue WHERE job_id IN (
  SELECT job_id FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1
  ORDER BY priority DESC, position, created_at, job_id
  LIMIT ?2
)
