-- What the schedules' last runs were; written by finish alone, in id order, so that two batches cannot deadlock. A
-- success after a failure that was told is told as well.
--
-- Differs from SQLite: what a batch means for a schedule is summed up first. `fresh` says that the failures are counted
-- from the batch's own last success, `failing` that a failure after that is told, `hurt` that one before it was.
WITH recorded AS (
  INSERT INTO punctual_internal.schedule_results AS r (schedule_id, last_run_at, last_outcome, last_success_at,
                                                       consecutive_failures, failing_since, recovered_from)
  SELECT w.schedule_id, $1::timestamptz, w.outcome, CASE WHEN w.fresh THEN $1::timestamptz END, w.failures,
         CASE WHEN w.failing THEN $1::timestamptz END, CASE WHEN w.hurt THEN $1::timestamptz END
  FROM unnest($2::uuid[], $3::text[], $4::boolean[], $5::bigint[], $6::boolean[], $7::boolean[])
    AS w (schedule_id, outcome, fresh, failures, failing, hurt)
  ORDER BY w.schedule_id
  ON CONFLICT (schedule_id) DO UPDATE SET
    last_run_at = excluded.last_run_at,
    last_outcome = excluded.last_outcome,
    last_success_at = coalesce(excluded.last_success_at, r.last_success_at),
    consecutive_failures = excluded.consecutive_failures
      + CASE WHEN excluded.last_success_at IS NULL THEN r.consecutive_failures ELSE 0 END,
    recovered_from = CASE WHEN excluded.last_success_at IS NULL THEN r.recovered_from
                     ELSE coalesce(r.failing_since, excluded.recovered_from) END,
    failing_since = CASE WHEN excluded.last_success_at IS NULL THEN coalesce(r.failing_since, excluded.failing_since)
                    ELSE excluded.failing_since END
  RETURNING schedule_id, recovered_from
)
INSERT INTO punctual_internal.outbox (id, created_at, kind, job_id, schedule_id, payload)
SELECT w.notice_id, $1::timestamptz, 'recovered', w.job_id, w.schedule_id, json_build_object(
  'failing_since', to_char(recorded.recovered_from AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
FROM unnest($2::uuid[], $4::boolean[], $8::uuid[], $9::uuid[]) AS w (schedule_id, fresh, notice_id, job_id)
JOIN recorded ON recorded.schedule_id = w.schedule_id AND recorded.recovered_from IS NOT NULL
WHERE w.fresh
