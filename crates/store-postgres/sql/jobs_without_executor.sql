-- The jobs of marked schedules that wait, oldest first. No more are made while a schedule is marked.
--
-- Differs from SQLite in nothing but names.
SELECT v.schedule_id, v.job_id FROM punctual_internal.schedule_state AS t
JOIN punctual_internal.schedule_live AS v ON v.schedule_id = t.schedule_id
WHERE t.no_executor_since IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.job_id = v.job_id)
ORDER BY v.job_id
