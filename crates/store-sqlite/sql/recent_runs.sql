-- The last runs of some schedules, each from the index of its jobs: the latest jobs of a schedule, of these the latest that
-- have ended, and no more of an error than its beginning.
SELECT j.schedule_id, j.id, j.slot_at, j.trigger, r.started_at, r.finished_at, r.outcome, r.error_code,
  substr(r.error, 1, 200)
FROM json_each(?1) AS s
CROSS JOIN punctual_jobs AS j ON j.id IN (
  SELECT n.id
  FROM (SELECT id FROM punctual_jobs WHERE schedule_id = unhex(s.value) ORDER BY id DESC LIMIT ?3) AS n
  CROSS JOIN punctual_runs AS e ON e.job_id = n.id
  ORDER BY n.id DESC LIMIT ?2)
CROSS JOIN punctual_runs AS r ON r.job_id = j.id
ORDER BY s.key, j.id DESC
