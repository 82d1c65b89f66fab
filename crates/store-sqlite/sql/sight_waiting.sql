-- Schedules whose latest job still waits although its slot has passed.
SELECT s.id, s.name, s.labels, s.queue, NULL, q.job_id, j.slot_at, NULL, NULL
FROM punctual_schedule_state AS t
CROSS JOIN punctual_queue AS q ON q.job_id = t.last_job_id
CROSS JOIN punctual_jobs AS j ON j.id = q.job_id
CROSS JOIN punctual_schedules AS s ON s.id = t.schedule_id
WHERE j.slot_at < ?1 AND j.trigger IN ('schedule', 'catchup')
LIMIT ?2
