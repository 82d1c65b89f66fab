-- What a listed schedule must be beside what led to it. Looked up row by row, as in SQLite.
) AS n
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = n.id OFFSET 0) AS s
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedule_state WHERE schedule_id = n.id OFFSET 0) AS t
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = n.id OFFSET 0) AS r ON true
WHERE ($5::boolean IS NULL OR t.enabled = $5)
  AND ($6::text IS NULL OR strpos(s.name, $6) > 0)
  AND ($7::boolean IS NULL OR (coalesce(r.consecutive_failures, 0) > 0) = $7)
  AND ($8::text IS NULL OR s.queue = $8)
  AND ($9::text IS NULL OR (s.labels -> $9) IS NOT NULL AND ($10::text IS NULL OR s.labels ->> $9 = $10))
ORDER BY n.name
LIMIT $11
