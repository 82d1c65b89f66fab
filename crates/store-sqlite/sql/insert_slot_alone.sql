-- Writes a decision that was made from memory, unless the slot has one already. The plans are not looked at, because
-- they may be what is broken; the primary key of the ledger alone keeps the slot from firing twice.
INSERT INTO punctual_slots (schedule_id, slot_at, through, count, decision, reason, job_id, decided_at, node_id,
                            late_ms, schedule_version, note)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (schedule_id, slot_at) DO NOTHING
