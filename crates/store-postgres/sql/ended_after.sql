-- The jobs that ended after one, in the order of their ends.
FROM (
  SELECT job_id, finished_at FROM punctual_internal.runs
  WHERE (finished_at, job_id) > ($1, $2) ORDER BY finished_at, job_id LIMIT $3
) AS s
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = s.job_id OFFSET 0) AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.delayed WHERE job_id = j.id OFFSET 0) AS d ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.queue WHERE job_id = j.id OFFSET 0) AS q ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.running WHERE job_id = j.id OFFSET 0) AS g ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.runs WHERE job_id = j.id OFFSET 0) AS r ON true
ORDER BY s.finished_at, s.job_id
