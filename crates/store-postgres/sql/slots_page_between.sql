-- The ledger of one schedule within a time, and what reaches into that time from before it; the caller puts it in order.
-- Only what was decided ahead of its time can lie between such a range and its end, so that the latest rows are enough.
(SELECT slot_at, through, count, decision, reason, job_id, decided_at, node_id, late_ms, schedule_version, note
 FROM punctual_internal.slots WHERE schedule_id = $1 AND slot_at < $2 AND slot_at >= $3 ORDER BY slot_at DESC LIMIT $4)
UNION ALL
(SELECT * FROM (
   SELECT slot_at, through, count, decision, reason, job_id, decided_at, node_id, late_ms, schedule_version, note
   FROM punctual_internal.slots WHERE schedule_id = $1 AND slot_at < least($2, $3) ORDER BY slot_at DESC LIMIT 1000
 ) AS s
 WHERE through >= $3)
