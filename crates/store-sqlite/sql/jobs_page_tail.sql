-- What a listed job must be beside what led to it. The state is where its row is.
) AS s
CROSS JOIN punctual_jobs AS j ON j.id = s.id
CROSS JOIN punctual_lanes AS l ON l.id = j.lane_id
WHERE (?6 IS NULL OR l.queue = ?6)
  AND (?7 IS NULL OR l.job_type = ?7)
  AND (?8 IS NULL OR j.owner = ?8)
  AND (?9 IS NULL OR EXISTS (SELECT 1 FROM json_each(j.tags) AS t WHERE t.value = ?9))
  AND (?10 IS NULL
    OR ?10 = coalesce(
      (SELECT r.outcome FROM punctual_runs AS r WHERE r.job_id = j.id),
      (SELECT 'running' FROM punctual_running AS g WHERE g.job_id = j.id),
      (SELECT 'queued' FROM punctual_queue AS q WHERE q.job_id = j.id),
      (SELECT iif(d.run_at IS NULL, 'waiting', 'scheduled') FROM punctual_delayed AS d WHERE d.job_id = j.id))
    OR ?10 = 'ended' AND EXISTS (SELECT 1 FROM punctual_runs AS r WHERE r.job_id = j.id))
  AND (?12 IS NULL OR ?12 = (SELECT r.error_code FROM punctual_runs AS r WHERE r.job_id = j.id))
ORDER BY s.id DESC
LIMIT ?11
