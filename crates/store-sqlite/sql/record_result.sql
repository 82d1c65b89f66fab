-- What the schedule's last run was; written by finish alone.
INSERT INTO punctual_schedule_results (schedule_id, last_run_at, last_outcome, last_success_at, consecutive_failures)
VALUES (?1, ?2, ?3, iif(?3 = 'completed', ?2, NULL), iif(?3 = 'failed', 1, 0))
ON CONFLICT (schedule_id) DO UPDATE SET
  last_run_at = excluded.last_run_at,
  last_outcome = excluded.last_outcome,
  last_success_at = coalesce(excluded.last_success_at, last_success_at),
  consecutive_failures = CASE excluded.last_outcome
    WHEN 'completed' THEN 0
    WHEN 'failed' THEN consecutive_failures + 1
    ELSE consecutive_failures END
