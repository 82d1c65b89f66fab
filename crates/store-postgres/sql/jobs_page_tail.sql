-- What a listed job must be beside what led to it. The state is where its row is. Each row is looked up by itself,
-- whatever the planner thinks of how many there are; SQLite does so anyway. The lower bound stands here and not in the
-- scan, unlike SQLite's: with a range the planner believes that a scan finds next to nothing, and sorts.
) AS s
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = s.id OFFSET 0) AS j
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.lanes WHERE id = j.lane_id OFFSET 0) AS l
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.delayed WHERE job_id = j.id OFFSET 0) AS d ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.queue WHERE job_id = j.id OFFSET 0) AS q ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.running WHERE job_id = j.id OFFSET 0) AS g ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.runs WHERE job_id = j.id OFFSET 0) AS r ON true
WHERE s.id >= $10 AND ($5::text IS NULL OR l.queue = $5)
  AND ($6::text IS NULL OR l.job_type = $6)
  AND ($7::text IS NULL OR j.owner = $7)
  AND ($8::text IS NULL OR EXISTS (SELECT 1 FROM json_array_elements_text(j.tags) AS t (tag) WHERE t.tag = $8))
  AND ($9::text IS NULL
    OR $9 = CASE
      WHEN r.job_id IS NOT NULL THEN r.outcome
      WHEN g.job_id IS NOT NULL THEN 'running'
      WHEN q.job_id IS NOT NULL THEN 'queued'
      WHEN d.run_at IS NOT NULL THEN 'scheduled'
      WHEN d.job_id IS NOT NULL THEN 'waiting'
    END
    OR $9 = 'ended' AND r.job_id IS NOT NULL)
  AND ($12::text IS NULL OR r.error_code = $12)
ORDER BY s.id DESC
LIMIT $11
