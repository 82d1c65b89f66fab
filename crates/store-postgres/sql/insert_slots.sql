-- Writes decisions, except where the slot has one already or lies at or below the watermark: there nothing fires. A
-- range is not written over rows of which its plan knows nothing.
--
-- Differs from SQLite: a whole batch at once, and ranges are looked at here. The answer names the slots that were
-- written; whoever misses one writes them one by one. What is null is what it is for a slot that fires on time: most
-- lists are empty then, and cost nothing.
INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decision, reason, job_id, decided_at, node_id,
                                     late_ms, schedule_version, note)
SELECT w.schedule_id, w.slot_at, coalesce(w.through, w.slot_at), coalesce(w.count, 1), coalesce(w.decision, 'fired'),
       coalesce(w.reason, 'on_time'), w.job_id, $1, $2, w.late_ms, w.version, w.note
FROM unnest($3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::text[], $8::text[], $9::uuid[],
            $10::bigint[], $11::bigint[], $12::text[])
  AS w (schedule_id, slot_at, through, count, decision, reason, job_id, late_ms, version, note)
WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_state AS t
                  WHERE t.schedule_id = w.schedule_id AND t.fired_through >= w.slot_at)
  AND NOT (coalesce(w.count, 1) > 1 AND EXISTS (
    SELECT 1 FROM punctual_internal.slots AS s
    WHERE s.schedule_id = w.schedule_id AND s.slot_at <= coalesce(w.through, w.slot_at) AND s.slot_at > greatest(w.slot_at, (
      SELECT t.last_slot_at FROM punctual_internal.schedule_state AS t WHERE t.schedule_id = w.schedule_id))))
ON CONFLICT (schedule_id, slot_at) DO NOTHING
RETURNING schedule_id, slot_at
