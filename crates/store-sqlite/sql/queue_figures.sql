-- How many jobs wait in a queue, and since when the oldest of them; counted up to a bound.
SELECT count(*), min(queued_at)
FROM (
  SELECT q.queued_at FROM punctual_lanes AS l CROSS JOIN punctual_queue AS q ON q.lane_id = l.id AND q.ready = 1
  WHERE l.queue = ?1
  UNION ALL
  SELECT q.queued_at FROM punctual_lanes AS l CROSS JOIN punctual_queue AS q ON q.lane_id = l.id AND q.ready = 0
  WHERE l.queue = ?1
  LIMIT ?2
)
