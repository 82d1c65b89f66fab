-- Queues with their figures, each counted up to a bound; one statement, where SQLite asks once for each queue.
SELECT u.name, u.paused, u.created_at, (
    SELECT concurrency FROM punctual_internal.limits WHERE scope = 'queue' AND name = u.name
  ), f.depth, f.oldest, h.id, h.queue, h.holder, h.reserved_at, h.expires_at
FROM (
  SELECT * FROM punctual_internal.queues WHERE name > $1 AND ($2::text IS NULL OR name = $2) ORDER BY name LIMIT $3
) AS u
CROSS JOIN LATERAL (
  SELECT count(*) AS depth, min(w.queued_at) AS oldest FROM (
    SELECT w.queued_at FROM punctual_internal.lanes AS l
    CROSS JOIN LATERAL (
      (SELECT queued_at FROM punctual_internal.queue WHERE lane_id = l.id AND ready
       ORDER BY priority DESC, position, created_at, job_id LIMIT $4)
      UNION ALL
      (SELECT queued_at FROM punctual_internal.queue WHERE lane_id = l.id AND NOT ready
       ORDER BY priority DESC, position, created_at, job_id LIMIT $4)
    ) AS w
    WHERE l.queue = u.name LIMIT $4
  ) AS w
) AS f
LEFT JOIN punctual_internal.reservations AS h
  ON h.queue = u.name AND h.ended_at IS NULL AND h.expires_at > coalesce($5, now())
ORDER BY u.name
