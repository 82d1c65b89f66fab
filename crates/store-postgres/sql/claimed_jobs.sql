-- The claimed jobs, after their own columns: where they stood. Before them, once for all, a row without a job that says
-- since when they run and whether the lease holds. Who gets less than he asked for waits for more, and says so there.
  , nullif(r.priority, j.priority), r.position, nullif(r.created_at, j.created_at), r.at, r.holds
FROM (
  SELECT NULL::uuid AS job_id, NULL::integer AS priority, NULL::bigint AS position, NULL::timestamptz AS created_at,
         clock.at, CASE
           WHEN EXISTS (SELECT 1 FROM open WHERE id IS NULL) THEN false
           WHEN (SELECT count(*) FROM taken) < $7 THEN nextval('punctual_internal.waits') > 0
           ELSE true
         END AS holds
  FROM clock
  UNION ALL
  SELECT job_id, priority, position, created_at, NULL, NULL FROM started
) AS r
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = r.job_id OFFSET 0) AS j ON true
LEFT JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
