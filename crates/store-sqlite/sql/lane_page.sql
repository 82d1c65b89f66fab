-- One lane in queue order after a place, claimable or held; the caller merges the two and all lanes of a queue.
SELECT priority, position, created_at, job_id, serial_key FROM punctual_queue
WHERE lane_id = ?1 AND ready = 1
  AND priority <= ?2 AND (priority < ?2 OR (position, created_at, job_id) > (?3, ?4, ?5))
ORDER BY priority DESC, position, created_at, job_id
LIMIT ?6
