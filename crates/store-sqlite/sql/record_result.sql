-- What the schedule's last run was; written by finish alone. ?4 says that its failure is told. The answer is what a
-- success has ended, if it ended anything.
INSERT INTO punctual_schedule_results (schedule_id, last_run_at, last_outcome, last_success_at, consecutive_failures,
                                       failing_since)
VALUES (?1, ?2, ?3, iif(?3 = 'completed', ?2, NULL), iif(?3 = 'failed', 1, 0), iif(?4, ?2, NULL))
ON CONFLICT (schedule_id) DO UPDATE SET
  last_run_at = excluded.last_run_at,
  last_outcome = excluded.last_outcome,
  last_success_at = coalesce(excluded.last_success_at, last_success_at),
  consecutive_failures = CASE excluded.last_outcome
    WHEN 'completed' THEN 0
    WHEN 'failed' THEN consecutive_failures + 1
    ELSE consecutive_failures END,
  recovered_from = iif(excluded.last_outcome = 'completed', failing_since, recovered_from),
  failing_since = iif(excluded.last_outcome = 'completed', NULL, coalesce(failing_since, excluded.failing_since))
RETURNING recovered_from
