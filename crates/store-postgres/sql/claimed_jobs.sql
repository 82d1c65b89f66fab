-- The claimed jobs, after their own columns: where they stood. Before them, once for all, a row without a job that says
-- since when they run, whether the lease holds, whether there are limits, and when a rate lets the next one start. Who
-- gets less than he asked for waits for more, and says so there.
  , nullif(r.priority, j.priority), r.position, nullif(r.created_at, j.created_at), r.at, r.holds, r.limited, r.more_in_us
FROM (
  SELECT NULL::uuid AS job_id, NULL::integer AS priority, NULL::bigint AS position, NULL::timestamptz AS created_at,
         clock.at, CASE
           WHEN lease.holds AND (SELECT count(*) FROM taken) < $7 THEN nextval('punctual_internal.waits') > 0
           ELSE lease.holds
         END AS holds, lease.limited, lease.more_in_us
  FROM clock CROSS JOIN lease
  UNION ALL
  SELECT job_id, priority, position, created_at, NULL, NULL, NULL, NULL FROM started
) AS r
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = r.job_id OFFSET 0) AS j ON true
LEFT JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
