-- Schedules that no live node can run, and since when that is so.
SELECT s.id, s.name, s.labels, s.queue, NULL, NULL, NULL, t.no_executor_since, NULL
FROM punctual_schedule_state AS t CROSS JOIN punctual_schedules AS s ON s.id = t.schedule_id
WHERE t.no_executor_since IS NOT NULL AND t.no_executor_since < ?1
LIMIT ?2
