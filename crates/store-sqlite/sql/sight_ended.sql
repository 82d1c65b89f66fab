-- What ended since the last look and had begun late or taken long.
SELECT s.id, s.name, s.labels, l.queue, l.job_type, r.job_id,
  CASE WHEN j.trigger IN ('schedule', 'catchup') THEN j.slot_at END, r.started_at, r.finished_at
FROM punctual_runs AS r
CROSS JOIN punctual_jobs AS j ON j.id = r.job_id
CROSS JOIN punctual_lanes AS l ON l.id = j.lane_id
LEFT JOIN punctual_schedules AS s ON s.id = j.schedule_id
WHERE r.finished_at > ?4 AND r.started_at IS NOT NULL
  AND (r.finished_at - r.started_at > ?1
       OR (r.started_at - j.slot_at > ?2 AND j.trigger IN ('schedule', 'catchup')))
ORDER BY r.finished_at LIMIT ?3
