-- The nearest jobs of the same queue and priority behind a place, nearest first, one job left out.
SELECT q.priority, q.position, q.created_at, q.job_id
FROM punctual_internal.lanes AS l
CROSS JOIN LATERAL (
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND ready AND priority = $2 AND (position, created_at, job_id) > ($3, $4, $5) AND job_id <> $6
   ORDER BY position, created_at, job_id
   LIMIT $7)
  UNION ALL
  (SELECT * FROM punctual_internal.queue
   WHERE lane_id = l.id AND NOT ready AND priority = $2 AND (position, created_at, job_id) > ($3, $4, $5)
     AND job_id <> $6
   ORDER BY position, created_at, job_id
   LIMIT $7)
) AS q
WHERE l.queue = $1
ORDER BY q.position, q.created_at, q.job_id
LIMIT $7
