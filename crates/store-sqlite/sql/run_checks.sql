-- Everything that must not be, in one statement and so in one snapshot; ?1 = how many of each, ?2 = now.
-- Small tables lead every join: only the checks of the ledgers read the ledgers themselves.
SELECT * FROM (SELECT 'job_nowhere', j.id FROM punctual_jobs AS j
  WHERE NOT EXISTS (SELECT 1 FROM punctual_runs AS o WHERE o.job_id = j.id)
    AND NOT EXISTS (SELECT 1 FROM punctual_queue AS o WHERE o.job_id = j.id)
    AND NOT EXISTS (SELECT 1 FROM punctual_running AS o WHERE o.job_id = j.id)
    AND NOT EXISTS (SELECT 1 FROM punctual_delayed AS o WHERE o.job_id = j.id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'job_in_two_places', p.job_id FROM (
    SELECT job_id, 1 AS place FROM punctual_delayed
    UNION ALL SELECT job_id, 2 FROM punctual_queue
    UNION ALL SELECT job_id, 3 FROM punctual_running) AS p
  WHERE EXISTS (SELECT 1 FROM punctual_runs AS o WHERE o.job_id = p.job_id)
     OR (p.place < 3 AND EXISTS (SELECT 1 FROM punctual_running AS o WHERE o.job_id = p.job_id))
     OR (p.place < 2 AND EXISTS (SELECT 1 FROM punctual_queue AS o WHERE o.job_id = p.job_id)) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'row_without_job', p.job_id FROM (
    SELECT job_id FROM punctual_delayed
    UNION ALL SELECT job_id FROM punctual_queue
    UNION ALL SELECT job_id FROM punctual_running
    UNION ALL SELECT job_id FROM punctual_runs
    UNION ALL SELECT job_id FROM punctual_artifacts) AS p
  WHERE NOT EXISTS (SELECT 1 FROM punctual_jobs AS j WHERE j.id = p.job_id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'running_without_lease', r.job_id FROM punctual_running AS r
  WHERE NOT EXISTS (SELECT 1 FROM punctual_leases AS l WHERE l.lease_id = r.lease_id
      AND l.node_id = r.node_id)
    AND NOT (r.lease_id IS NULL AND EXISTS (SELECT 1 FROM punctual_flow_runs AS f
                                            WHERE f.job_id = r.job_id AND f.ended_at IS NULL)) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'held_for_nothing', q.job_id FROM punctual_queue AS q
  WHERE q.ready = 0
    AND NOT EXISTS (SELECT 1 FROM punctual_running AS r WHERE r.serial_key = q.serial_key)
    AND NOT EXISTS (SELECT 1 FROM punctual_serial_holds AS s WHERE s.key = q.serial_key)
    AND NOT EXISTS (SELECT 1 FROM punctual_queue AS h WHERE h.serial_key = q.serial_key AND h.ready = 1) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'retry_missing', r.job_id FROM punctual_runs AS r
  WHERE r.outcome = 'failed' AND r.final = 0
    AND NOT EXISTS (SELECT 1 FROM punctual_retries AS t WHERE t.retry_of = r.job_id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'retry_unrecorded', j.id FROM punctual_jobs AS j
  WHERE j.retry_of IS NOT NULL AND j.trigger = 'retry'
    AND NOT EXISTS (SELECT 1 FROM punctual_retries AS t WHERE t.retry_of = j.retry_of) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'schedule_incomplete', s.id FROM punctual_schedules AS s
  WHERE s.deleted_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM punctual_schedule_state AS t WHERE t.schedule_id = s.id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'schedule_incomplete', t.schedule_id FROM punctual_schedule_state AS t
  WHERE NOT EXISTS (SELECT 1 FROM punctual_schedules AS s WHERE s.id = t.schedule_id) LIMIT ?1)
UNION ALL
-- A slot that was fired from memory lies at or after the plan, which is brought up to it when the schedule fires next.
SELECT * FROM (SELECT 'slot_not_counted', d.schedule_id FROM punctual_slots AS d
  JOIN punctual_schedule_state AS t ON t.schedule_id = d.schedule_id
  WHERE d.reason NOT IN ('backfill', 'rescheduled') AND t.enabled = 1 AND d.slot_at < t.next_slot_at
    AND (t.fired_through IS NULL OR d.through > t.fired_through) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'slot_without_job', d.schedule_id FROM punctual_slots AS d
  WHERE d.job_id IS NOT NULL AND d.decided_at >= (SELECT before FROM punctual_retention WHERE ledger = 'runs')
    AND NOT EXISTS (SELECT 1 FROM punctual_jobs AS j WHERE j.id = d.job_id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'live_miscounted', v.job_id FROM punctual_schedule_live AS v
  WHERE NOT EXISTS (SELECT 1 FROM punctual_queue AS o WHERE o.job_id = v.job_id)
    AND NOT EXISTS (SELECT 1 FROM punctual_running AS o WHERE o.job_id = v.job_id)
    AND NOT EXISTS (SELECT 1 FROM punctual_delayed AS o WHERE o.job_id = v.job_id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'live_miscounted', p.job_id FROM (
    SELECT job_id FROM punctual_delayed
    UNION ALL SELECT job_id FROM punctual_queue
    UNION ALL SELECT job_id FROM punctual_running) AS p
  JOIN punctual_jobs AS j ON j.id = p.job_id
  WHERE j.schedule_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM punctual_schedule_live AS v
    WHERE v.schedule_id = j.schedule_id AND v.job_id = j.id) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'schedule_unplanned', s.name FROM punctual_schedule_state AS t
  JOIN punctual_schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.enabled = 1 AND t.exhausted_at IS NULL AND t.problem IS NULL AND t.fired_from = 'store'
    AND (t.next_run_at IS NULL OR t.next_slot_at IS NULL) LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'decided_in_future', s.name FROM punctual_schedule_state AS t
  JOIN punctual_schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.exhausted_at IS NULL AND t.fired_through > ?2 + 60000000
    AND EXISTS (SELECT 1 FROM punctual_slots AS d
      WHERE d.schedule_id = t.schedule_id AND d.slot_at > ?2 + 60000000 AND d.decision = 'fired') LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'schedule_problem', s.name || ': ' || t.problem FROM punctual_schedule_state AS t
  JOIN punctual_schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.problem IS NOT NULL LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'overdue', s.name FROM punctual_schedule_state AS t
  JOIN punctual_schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.enabled = 1 AND t.problem IS NULL AND t.next_run_at < ?2 - 60000000 LIMIT ?1)
UNION ALL
SELECT * FROM (SELECT 'overdue', d.job_id FROM punctual_delayed AS d
  WHERE d.run_at < ?2 - 60000000 LIMIT ?1)
