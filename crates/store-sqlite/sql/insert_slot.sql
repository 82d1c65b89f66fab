-- Writes a decision, unless the slot has one already or lies at or below the watermark: then nothing fires.
INSERT INTO punctual_slots (schedule_id, slot_at, through, count, decision, reason, job_id, decided_at, node_id,
                            late_ms, schedule_version, note)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
WHERE NOT EXISTS (SELECT 1 FROM punctual_schedule_state WHERE schedule_id = ?1 AND fired_through >= ?2)
ON CONFLICT (schedule_id, slot_at) DO NOTHING
