-- Writes decisions, except where the slot has one already. The plans are not looked at: the caller has them locked and
-- has looked, or has decided from memory because they may be what is broken. The primary key of the ledger alone keeps
-- a slot from firing twice.
INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decision, reason, job_id, decided_at, node_id,
                                     late_ms, schedule_version, note)
SELECT w.schedule_id, w.slot_at, coalesce(w.through, w.slot_at), coalesce(w.count, 1), coalesce(w.decision, 'fired'),
       coalesce(w.reason, 'on_time'), w.job_id, $1, $2, w.late_ms, w.version, w.note
FROM unnest($3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::text[], $8::text[], $9::uuid[],
            $10::bigint[], $11::bigint[], $12::text[])
  AS w (schedule_id, slot_at, through, count, decision, reason, job_id, late_ms, version, note)
ON CONFLICT (schedule_id, slot_at) DO NOTHING
RETURNING schedule_id, slot_at
