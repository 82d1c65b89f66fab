-- Schedules that were due before an instant and are not decided on, the longest due first.
SELECT s.id, s.name, s.labels, s.queue, NULL, NULL, NULL, t.next_run_at, NULL
FROM punctual_schedule_state AS t CROSS JOIN punctual_schedules AS s ON s.id = t.schedule_id
WHERE t.enabled = 1 AND t.next_run_at IS NOT NULL AND t.next_run_at < ?1
ORDER BY t.next_run_at, t.schedule_id LIMIT ?2
