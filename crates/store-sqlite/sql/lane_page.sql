-- One lane after a place, claimable or held; the caller merges the two and all lanes of a queue. Jobs of the place's own
-- priority and those of lower ones are two ranges of the index; one condition for both would read past all that stand
-- before the place.
SELECT * FROM (
  SELECT priority, position, created_at, job_id, serial_key FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1 AND priority = ?2 AND (position, created_at, job_id) > (?3, ?4, ?5)
  ORDER BY position, created_at, job_id
  LIMIT ?6
)
UNION ALL
SELECT * FROM (
  SELECT priority, position, created_at, job_id, serial_key FROM punctual_queue
  WHERE lane_id = ?1 AND ready = 1 AND priority < ?2
  ORDER BY priority DESC, position, created_at, job_id
  LIMIT ?6
)
