-- Where a schedule stands after a decision. The watermark and the last slot only rise; what is null stays.
UPDATE punctual_schedule_state SET
  next_slot_at = ?2,
  next_run_at = ?3,
  exhausted_at = ?4,
  problem = ?5,
  no_executor_since = NULL,
  last_slot_at = max(coalesce(?6, last_slot_at), coalesce(last_slot_at, ?6)),
  fired_through = max(coalesce(?7, fired_through), coalesce(fired_through, ?7)),
  last_job_id = coalesce(?8, last_job_id),
  last_enqueued_at = coalesce(?9, last_enqueued_at)
WHERE schedule_id = ?1
