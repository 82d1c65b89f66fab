-- The nearest earlier attempt of a flow that had begun, with its definition.
WITH RECURSIVE chain (id, distance) AS (
  SELECT retry_of, 1 FROM punctual_internal.jobs WHERE id = $1 AND retry_of IS NOT NULL
  UNION ALL
  SELECT j.retry_of, c.distance + 1 FROM chain AS c JOIN punctual_internal.jobs AS j ON j.id = c.id
  WHERE j.retry_of IS NOT NULL
)
SELECT f.job_id, f.definition::text FROM chain AS c JOIN punctual_internal.flow_runs AS f ON f.job_id = c.id
ORDER BY c.distance LIMIT 1
