-- The claimed jobs, after their own columns: where they stood, and since when they run. Who gets less than he asked for
-- waits for more, and says so; that is why there is a row, without a job, even if he got nothing.
  , started.priority, started.position, started.created_at, started.started_at, w.waits
FROM (SELECT CASE WHEN (SELECT count(*) FROM taken) < $7 THEN nextval('punctual_internal.waits') END AS waits) AS w
LEFT JOIN started ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = started.job_id OFFSET 0) AS j ON true
LEFT JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
