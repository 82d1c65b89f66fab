-- Schedules whose latest job still waits although its slot has passed.
SELECT s.id, s.name, s.labels::text, s.queue, NULL::text, q.job_id, j.slot_at, NULL::timestamptz, NULL::timestamptz
FROM punctual_internal.schedule_state AS t
JOIN punctual_internal.queue AS q ON q.job_id = t.last_job_id
JOIN punctual_internal.jobs AS j ON j.id = q.job_id
JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
WHERE j.slot_at < $1 AND j.trigger IN ('schedule', 'catchup')
LIMIT $2
