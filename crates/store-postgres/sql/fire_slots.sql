-- Fires schedules of which each has one slot above its watermark, and that slot one job that waits for nobody: what
-- most batches are. Ledger, jobs, queue and plans in one statement. The jobs are copied from their schedules, whose
-- definitions are those that were decided by as long as the version is the same.
--
-- Differs from SQLite, where a statement costs no round trip. The answer is how many schedules were planned: fewer than
-- were sent mean that a lane is missing or that somebody edited one meanwhile; a slot that was decided before is
-- refused by the ledger's primary key. Then the caller undoes everything, and fires them one by one.
WITH due AS MATERIALIZED (
  SELECT w.*, s.target, s.input, s.priority, s.retry, s.timeout_us, s.template_id, s.grant_id, s.owner, s.tags,
         coalesce(w.detail, s.cron) AS trigger_detail, l.id AS lane_id
  FROM unnest($3::uuid[], $4::bigint[], $5::timestamptz[], $6::uuid[], $7::bigint[], $8::timestamptz[],
              $9::timestamptz[], $10::timestamptz[], $11::boolean[], $12::text[])
    AS w (schedule_id, version, slot_at, job_id, late_ms, next_slot_at, next_run_at, exhausted_at, catchup, detail)
  CROSS JOIN LATERAL (
    SELECT * FROM punctual_internal.schedules WHERE id = w.schedule_id AND version = w.version OFFSET 0
  ) AS s
  JOIN punctual_internal.lanes AS l ON l.queue = s.queue AND l.job_type = s.job_type AND l.tags = '{}'
), decided AS (
  INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decision, reason, job_id, decided_at,
                                       node_id, late_ms, schedule_version)
  SELECT schedule_id, slot_at, slot_at, 1, 'fired', CASE WHEN catchup THEN 'catchup' ELSE 'on_time' END, job_id, $1, $2,
         late_ms, version
  FROM due
), made AS (
  INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, timeout_us, template_id,
                                      grant_id, trigger, trigger_detail, schedule_id, slot_at, owner, tags)
  SELECT job_id, $1, lane_id, priority, target, input, retry, timeout_us, template_id, grant_id,
         CASE WHEN catchup THEN 'catchup' ELSE 'schedule' END, trigger_detail, schedule_id, slot_at, owner, tags
  FROM due
), queued AS (
  INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, schedule_id, tags)
  SELECT job_id, lane_id, priority, true, nextval('punctual_internal.positions') * 1048576, $1, $1, schedule_id, tags
  FROM due
), live AS (
  INSERT INTO punctual_internal.schedule_live (schedule_id, job_id) SELECT schedule_id, job_id FROM due
), planned AS (
  UPDATE punctual_internal.schedule_state AS t SET
    next_slot_at = due.next_slot_at,
    next_run_at = due.next_run_at,
    exhausted_at = due.exhausted_at,
    problem = NULL,
    no_executor_since = NULL,
    last_slot_at = greatest(t.last_slot_at, due.slot_at),
    fired_through = greatest(t.fired_through, due.slot_at),
    last_job_id = due.job_id,
    last_enqueued_at = $1
  FROM due WHERE t.schedule_id = due.schedule_id
  RETURNING 1
)
SELECT count(*), CASE
  -- What is undone has told nobody, and the sequence would not know.
  WHEN count(*) = cardinality($3) AND pg_sequence_last_value('punctual_internal.waits')
    > pg_sequence_last_value('punctual_internal.told')
    AND setval('punctual_internal.told', pg_sequence_last_value('punctual_internal.waits')) > 0
  THEN pg_notify('punctual_wake', 'work')
END
FROM planned
