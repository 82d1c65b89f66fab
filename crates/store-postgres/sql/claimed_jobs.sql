-- The claimed jobs, after their own columns: where they stood, since when they run, and whether the lease holds. Who gets
-- less than he asked for waits for more, and says so; that is why there is a row, without a job, even if he got nothing.
  , started.priority, started.position, started.created_at, started.started_at, w.holds
FROM (SELECT CASE WHEN EXISTS (SELECT 1 FROM open WHERE id IS NULL) THEN false
             WHEN (SELECT count(*) FROM taken) < $7 THEN nextval('punctual_internal.waits') > 0
             ELSE true END AS holds) AS w
LEFT JOIN started ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = started.job_id OFFSET 0) AS j ON true
LEFT JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
