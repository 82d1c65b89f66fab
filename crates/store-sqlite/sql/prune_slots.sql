-- The next ledger rows that may be forgotten, below the watermark, schedule by schedule: what keeps a slot from firing
-- twice is the watermark itself.
SELECT s.schedule_id, s.slot_at FROM punctual_schedule_state AS t CROSS JOIN punctual_slots AS s
WHERE t.schedule_id >= ?1 AND s.schedule_id = t.schedule_id AND s.slot_at < ?2
  AND s.through < ?2 AND s.through <= t.fired_through
ORDER BY t.schedule_id, s.slot_at
LIMIT ?3
