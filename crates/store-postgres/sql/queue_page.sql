-- A queue in its order after a place: the head of each of its lanes, claimable and held, merged. Jobs of the place's own
-- priority and those of lower ones are two ranges of the index; one condition for both would read past all that stand
-- before the place.
SELECT q.priority, q.position, q.created_at, q.job_id, q.ready, q.serial_key
FROM punctual_internal.lanes AS l
CROSS JOIN LATERAL (
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND ready AND priority = $2 AND (position, created_at, job_id) > ($3, $4, $5)
   ORDER BY position, created_at, job_id
   LIMIT $6)
  UNION ALL
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND ready AND priority < $2
   ORDER BY priority DESC, position, created_at, job_id
   LIMIT $6)
  UNION ALL
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND NOT ready AND priority = $2 AND (position, created_at, job_id) > ($3, $4, $5)
   ORDER BY position, created_at, job_id
   LIMIT $6)
  UNION ALL
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND NOT ready AND priority < $2
   ORDER BY priority DESC, position, created_at, job_id
   LIMIT $6)
) AS q
WHERE l.queue = $1
ORDER BY q.priority DESC, q.position, q.created_at, q.job_id
LIMIT $6
