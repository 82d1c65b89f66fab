-- The head of each lane: since when it waits. Whether a node could take it is for the caller to say.
SELECT NULL, NULL, NULL, l.queue, l.job_type, q.job_id, NULL, q.queued_at, NULL
FROM punctual_lanes AS l
CROSS JOIN punctual_queue AS q ON q.job_id = (
  SELECT h.job_id FROM punctual_queue AS h WHERE h.lane_id = l.id AND h.ready = 1
  ORDER BY h.priority DESC, h.position, h.created_at, h.job_id LIMIT 1)
WHERE q.queued_at < ?1
LIMIT ?2
