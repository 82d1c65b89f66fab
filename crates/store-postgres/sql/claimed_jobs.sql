-- The claimed jobs, after their own columns: where they stood. Before them, once for all, a row without a job that says
-- since when they run, whether the lease holds, whether there are limits, when a rate lets the next one start, and which
-- queues the lanes are of: the jobs name their lanes instead, because a look-up for each would cost as much as the rest
-- of its row. Who gets less than he asked for waits for more, and says so there.
  ) END, nullif(r.priority, j.priority), r.position, nullif(r.created_at, j.created_at), r.answer
FROM (
  SELECT NULL::uuid AS job_id, NULL::bigint AS lane_id, NULL::integer AS priority, NULL::bigint AS position,
         NULL::timestamptz AS created_at, ROW(clock.at, CASE
           WHEN lease.holds AND (SELECT count(*) FROM taken) < $7 THEN nextval('punctual_internal.waits') > 0
           ELSE lease.holds
         END, lease.limited, lease.more_in_us, known.lanes, known.queues) AS answer
  FROM clock CROSS JOIN lease CROSS JOIN (
    SELECT array_agg(n.id) AS lanes, array_agg(n.queue) AS queues
    FROM quotas AS q JOIN punctual_internal.lanes AS n ON n.id = q.lane_id
  ) AS known
  UNION ALL
  SELECT job_id, lane_id, priority, position, created_at, NULL FROM started
) AS r
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = r.job_id OFFSET 0) AS j ON true
CROSS JOIN LATERAL (SELECT r.lane_id AS queue) AS l
