-- What a listed schedule must be beside what led to it.
) AS s
CROSS JOIN punctual_schedule_rows AS r ON r.schedule_id = s.id
WHERE (?5 IS NULL OR r.enabled = ?5)
  AND (?6 IS NULL OR instr(r.name, ?6) > 0)
  AND (?7 IS NULL OR (coalesce(r.consecutive_failures, 0) > 0) = ?7)
  AND (?8 IS NULL OR r.queue = ?8)
  AND (?9 IS NULL OR EXISTS (SELECT 1 FROM json_each(r.labels) AS t WHERE t.key = ?9 AND (?10 IS NULL OR t.value = ?10)))
ORDER BY s.name
LIMIT ?11
