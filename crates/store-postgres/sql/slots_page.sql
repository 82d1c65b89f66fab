-- The ledger of one schedule, latest slot first.
SELECT slot_at, through, count, decision, reason, job_id, decided_at, node_id, late_ms, schedule_version, note
FROM punctual_internal.slots WHERE schedule_id = $1 AND slot_at < $2 ORDER BY slot_at DESC LIMIT $3
