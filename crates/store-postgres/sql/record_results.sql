-- What the schedules' last runs were; written by finish alone, in id order, so that two batches cannot deadlock.
--
-- Differs from SQLite: what a batch means for a schedule is summed up first. `fresh` says that the failures are counted
-- from the batch's own last success.
INSERT INTO punctual_internal.schedule_results AS r (schedule_id, last_run_at, last_outcome, last_success_at,
                                                     consecutive_failures)
SELECT w.schedule_id, $1::timestamptz, w.outcome, CASE WHEN w.fresh THEN $1::timestamptz END, w.failures
FROM unnest($2::uuid[], $3::text[], $4::boolean[], $5::bigint[]) AS w (schedule_id, outcome, fresh, failures)
ORDER BY w.schedule_id
ON CONFLICT (schedule_id) DO UPDATE SET
  last_run_at = excluded.last_run_at,
  last_outcome = excluded.last_outcome,
  last_success_at = coalesce(excluded.last_success_at, r.last_success_at),
  consecutive_failures = excluded.consecutive_failures
    + CASE WHEN excluded.last_success_at IS NULL THEN r.consecutive_failures ELSE 0 END
