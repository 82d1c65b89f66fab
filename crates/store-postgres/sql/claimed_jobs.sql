-- The claimed jobs, after their own columns: where they stood, and since when they run.
  , started.priority, started.position, started.created_at, started.started_at
FROM started
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = started.job_id OFFSET 0) AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
