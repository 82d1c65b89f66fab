-- One page of the schedules that could have a plan, in order of id, for the reconciler.
--
-- Differs from SQLite: nothing is locked here; what looks impossible is locked and looked at again before it is mended.
FROM (
  SELECT * FROM punctual_internal.schedule_state
  WHERE schedule_id > $1 AND enabled AND exhausted_at IS NULL AND fired_from = 'store'
  ORDER BY schedule_id
  LIMIT $2
) AS t
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.schedules WHERE id = t.schedule_id OFFSET 0) AS s
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.schedule_results WHERE schedule_id = t.schedule_id OFFSET 0) AS r
  ON true
ORDER BY t.schedule_id
