-- A queue in its order after a place: the head of each of its lanes, claimable and held, merged.
SELECT q.priority, q.position, q.created_at, q.job_id, q.ready, q.serial_key
FROM punctual_internal.lanes AS l
CROSS JOIN LATERAL (
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND ready
     AND priority <= $2 AND (priority < $2 OR (position, created_at, job_id) > ($3, $4, $5))
   ORDER BY priority DESC, position, created_at, job_id
   LIMIT $6)
  UNION ALL
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND NOT ready
     AND priority <= $2 AND (priority < $2 OR (position, created_at, job_id) > ($3, $4, $5))
   ORDER BY priority DESC, position, created_at, job_id
   LIMIT $6)
) AS q
WHERE l.queue = $1
ORDER BY q.priority DESC, q.position, q.created_at, q.job_id
LIMIT $6
