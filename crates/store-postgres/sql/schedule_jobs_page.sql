-- The jobs of one schedule, latest first, each with where it is, in one snapshot.
FROM (
  SELECT * FROM punctual_internal.jobs WHERE schedule_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3
) AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.delayed WHERE job_id = j.id OFFSET 0) AS d ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.queue WHERE job_id = j.id OFFSET 0) AS q ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.running WHERE job_id = j.id OFFSET 0) AS g ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.runs WHERE job_id = j.id OFFSET 0) AS r ON true
ORDER BY j.id DESC
