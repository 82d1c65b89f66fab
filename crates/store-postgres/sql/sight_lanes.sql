-- The head of each lane: since when it waits. Whether a node could take it is for the caller to say.
SELECT NULL::uuid, NULL::text, NULL::text, l.queue, l.job_type, q.job_id, NULL::timestamptz, q.queued_at,
  NULL::timestamptz
FROM punctual_internal.lanes AS l
CROSS JOIN LATERAL (
  SELECT h.job_id, h.queued_at FROM punctual_internal.queue AS h WHERE h.lane_id = l.id AND h.ready
  ORDER BY h.priority DESC, h.position, h.created_at, h.job_id LIMIT 1) AS q
WHERE q.queued_at < $1
LIMIT $2
