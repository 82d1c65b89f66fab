-- The lanes a node may take from: its queues and job types, less what is empty, paused or reserved.
SELECT l.id, l.queue, l.job_type, l.tags FROM punctual_lanes AS l JOIN punctual_queues AS q ON q.name = l.queue
WHERE q.paused = 0
  AND (?1 IS NULL OR l.queue IN (SELECT value FROM json_each(?1)))
  AND l.job_type IN (SELECT value FROM json_each(?2))
  AND NOT EXISTS (SELECT 1 FROM punctual_reservations AS r
                  WHERE r.queue = l.queue AND r.ended_at IS NULL AND r.expires_at > ?3)
  AND EXISTS (SELECT 1 FROM punctual_queue AS w WHERE w.lane_id = l.id AND w.ready = 1)
ORDER BY l.id
