-- Makes lanes that are not there; a queue is made by its first use.
--
-- Differs from SQLite: two nodes may come at once, so both look first, which burns no numbers, and neither minds.
WITH wanted AS (
  SELECT DISTINCT queue, job_type FROM unnest($2::text[], $3::text[]) AS w (queue, job_type)
), queues AS (
  INSERT INTO punctual_internal.queues (name, created_at)
  SELECT DISTINCT queue, coalesce($1, now()) FROM wanted
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.queues WHERE name = wanted.queue)
  ORDER BY queue
  ON CONFLICT (name) DO NOTHING
)
INSERT INTO punctual_internal.lanes (queue, job_type)
SELECT queue, job_type FROM wanted
WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.lanes AS l
                  WHERE l.queue = wanted.queue AND l.job_type = wanted.job_type AND l.tags = '{}')
ORDER BY queue, job_type
ON CONFLICT (queue, job_type, tags) DO NOTHING
