-- What ended since the last look and had begun late or taken long.
--
-- Differs from SQLite: lengths of time are intervals.
SELECT s.id, s.name, s.labels::text, l.queue, l.job_type, r.job_id,
  CASE WHEN j.trigger IN ('schedule', 'catchup') THEN j.slot_at END, r.started_at, r.finished_at
FROM punctual_internal.runs AS r
JOIN punctual_internal.jobs AS j ON j.id = r.job_id
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
LEFT JOIN punctual_internal.schedules AS s ON s.id = j.schedule_id
WHERE r.finished_at > $4 AND r.started_at IS NOT NULL
  AND (r.finished_at - r.started_at > $1::bigint * interval '1 microsecond'
       OR (r.started_at - j.slot_at > $2::bigint * interval '1 microsecond' AND j.trigger IN ('schedule', 'catchup')))
ORDER BY r.finished_at LIMIT $3
