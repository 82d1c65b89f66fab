-- What runs and has begun late or takes long: a table that is as large as all nodes have room. Only a schedule's own
-- jobs can begin late: its retries and backfills come later by their nature.
SELECT s.id, s.name, s.labels, l.queue, l.job_type, g.job_id,
  CASE WHEN j.trigger IN ('schedule', 'catchup') THEN j.slot_at END, g.started_at, NULL
FROM punctual_running AS g
CROSS JOIN punctual_jobs AS j ON j.id = g.job_id
CROSS JOIN punctual_lanes AS l ON l.id = g.lane_id
LEFT JOIN punctual_schedules AS s ON s.id = j.schedule_id
WHERE g.started_at < ?1 OR (g.started_at - j.slot_at > ?2 AND j.trigger IN ('schedule', 'catchup'))
LIMIT ?3
