-- Forgets ledger rows below the watermark; what keeps a slot from firing twice is the watermark itself.
DELETE FROM punctual_internal.slots WHERE (schedule_id, slot_at) IN (
  SELECT s.schedule_id, s.slot_at FROM punctual_internal.slots AS s
  JOIN punctual_internal.schedule_state AS t ON t.schedule_id = s.schedule_id
  WHERE s.slot_at < $1 AND s.through < $1 AND t.fired_through >= s.through
  LIMIT $2)
