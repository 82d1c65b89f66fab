-- The next ledger rows that may be forgotten, below the watermark, schedule by schedule: what keeps a slot from firing
-- twice is the watermark itself.
SELECT s.schedule_id, s.slot_at FROM punctual_internal.schedule_state AS t
CROSS JOIN LATERAL (
  SELECT schedule_id, slot_at FROM punctual_internal.slots
  WHERE schedule_id = t.schedule_id AND slot_at < $2 AND through < $2 AND through <= t.fired_through
  ORDER BY slot_at
  LIMIT $3
) AS s
WHERE t.schedule_id >= $1
ORDER BY t.schedule_id, s.slot_at
LIMIT $3
