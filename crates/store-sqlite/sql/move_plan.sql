-- Where a schedule that is fired from memory stands; several processes fire it, so that nothing ever goes back.
UPDATE punctual_schedule_state SET
  next_slot_at = max(coalesce(?2, next_slot_at), coalesce(next_slot_at, ?2)),
  last_slot_at = max(coalesce(?3, last_slot_at), coalesce(last_slot_at, ?3)),
  fired_through = max(coalesce(?4, fired_through), coalesce(fired_through, ?4)),
  last_job_id = coalesce(?5, last_job_id),
  last_enqueued_at = coalesce(?6, last_enqueued_at),
  exhausted_at = ?7
WHERE schedule_id = ?1 AND fired_from = 'memory'
