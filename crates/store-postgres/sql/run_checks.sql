-- Everything that must not be, in one statement and so in one snapshot; $1 = how many of each, $2 = now, if it is not
-- the database's. Differs from SQLite in that ids are told as text, each part has its limit without a subquery, and
-- indexes that PostgreSQL itself calls invalid are found here (SQLite has a pragma for its own health).
(SELECT 'database_damaged', 'the index ' || x.indexrelid::regclass::text || ' is not valid' FROM pg_index AS x
  JOIN pg_class AS c ON c.oid = x.indrelid
  JOIN pg_namespace AS s ON s.oid = c.relnamespace
  WHERE s.nspname = 'punctual_internal' AND NOT x.indisvalid LIMIT $1)
UNION ALL
(SELECT 'job_nowhere', j.id::text FROM punctual_internal.jobs AS j
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.runs AS o WHERE o.job_id = j.id)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.queue AS o WHERE o.job_id = j.id)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS o WHERE o.job_id = j.id)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.delayed AS o WHERE o.job_id = j.id) LIMIT $1)
UNION ALL
(SELECT 'job_in_two_places', p.job_id::text FROM (
    SELECT job_id, 1 AS place FROM punctual_internal.delayed
    UNION ALL SELECT job_id, 2 FROM punctual_internal.queue
    UNION ALL SELECT job_id, 3 FROM punctual_internal.running) AS p
  WHERE EXISTS (SELECT 1 FROM punctual_internal.runs AS o WHERE o.job_id = p.job_id)
     OR (p.place < 3 AND EXISTS (SELECT 1 FROM punctual_internal.running AS o WHERE o.job_id = p.job_id))
     OR (p.place < 2 AND EXISTS (SELECT 1 FROM punctual_internal.queue AS o WHERE o.job_id = p.job_id)) LIMIT $1)
UNION ALL
(SELECT 'row_without_job', p.job_id::text FROM (
    SELECT job_id FROM punctual_internal.delayed
    UNION ALL SELECT job_id FROM punctual_internal.queue
    UNION ALL SELECT job_id FROM punctual_internal.running
    UNION ALL SELECT job_id FROM punctual_internal.runs
    UNION ALL SELECT job_id FROM punctual_internal.artifacts) AS p
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = p.job_id) LIMIT $1)
UNION ALL
(SELECT 'running_without_lease', r.job_id::text FROM punctual_internal.running AS r
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.leases AS l WHERE l.lease_id = r.lease_id
      AND l.node_id = r.node_id)
    AND NOT (r.lease_id IS NULL AND EXISTS (SELECT 1 FROM punctual_internal.flow_runs AS f
                                            WHERE f.job_id = r.job_id AND f.ended_at IS NULL)) LIMIT $1)
UNION ALL
(SELECT 'held_for_nothing', q.job_id::text FROM punctual_internal.queue AS q
  WHERE NOT q.ready
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS r WHERE r.serial_key = q.serial_key)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.serial_holds AS s WHERE s.key = q.serial_key)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.queue AS h WHERE h.serial_key = q.serial_key AND h.ready) LIMIT $1)
UNION ALL
(SELECT 'retry_missing', r.job_id::text FROM punctual_internal.runs AS r
  WHERE r.outcome = 'failed' AND NOT r.final
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.retries AS t WHERE t.retry_of = r.job_id) LIMIT $1)
UNION ALL
(SELECT 'retry_unrecorded', j.id::text FROM punctual_internal.jobs AS j
  WHERE j.retry_of IS NOT NULL AND j.trigger = 'retry'
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.retries AS t WHERE t.retry_of = j.retry_of) LIMIT $1)
UNION ALL
(SELECT 'schedule_incomplete', s.id::text FROM punctual_internal.schedules AS s
  WHERE s.deleted_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_state AS t WHERE t.schedule_id = s.id) LIMIT $1)
UNION ALL
(SELECT 'schedule_incomplete', t.schedule_id::text FROM punctual_internal.schedule_state AS t
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.schedules AS s WHERE s.id = t.schedule_id) LIMIT $1)
UNION ALL
-- What SQL shows of schedules is what there is.
(SELECT 'schedule_incomplete', coalesce(s.id, m.schedule_id)::text FROM punctual_internal.scheduled_jobs AS m
  FULL JOIN (SELECT * FROM punctual_internal.schedules WHERE deleted_at IS NULL) AS s ON s.id = m.schedule_id
  WHERE m.name IS DISTINCT FROM s.name LIMIT $1)
UNION ALL
-- A slot that was fired from memory lies at or after the plan, which is brought up to it when the schedule fires next.
(SELECT 'slot_not_counted', d.schedule_id::text FROM punctual_internal.slots AS d
  JOIN punctual_internal.schedule_state AS t ON t.schedule_id = d.schedule_id
  WHERE d.reason NOT IN ('backfill', 'rescheduled') AND t.enabled AND d.slot_at < t.next_slot_at
    AND (t.fired_through IS NULL OR d.through > t.fired_through) LIMIT $1)
UNION ALL
(SELECT 'slot_without_job', d.schedule_id::text FROM punctual_internal.slots AS d
  WHERE d.job_id IS NOT NULL AND d.decided_at >= (SELECT before FROM punctual_internal.retention WHERE ledger = 'runs')
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = d.job_id) LIMIT $1)
UNION ALL
(SELECT 'live_miscounted', v.job_id::text FROM punctual_internal.schedule_live AS v
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.queue AS o WHERE o.job_id = v.job_id)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS o WHERE o.job_id = v.job_id)
    AND NOT EXISTS (SELECT 1 FROM punctual_internal.delayed AS o WHERE o.job_id = v.job_id) LIMIT $1)
UNION ALL
(SELECT 'live_miscounted', p.job_id::text FROM (
    SELECT job_id FROM punctual_internal.delayed
    UNION ALL SELECT job_id FROM punctual_internal.queue
    UNION ALL SELECT job_id FROM punctual_internal.running) AS p
  JOIN punctual_internal.jobs AS j ON j.id = p.job_id
  WHERE j.schedule_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_live AS v
    WHERE v.schedule_id = j.schedule_id AND v.job_id = j.id) LIMIT $1)
UNION ALL
(SELECT 'schedule_unplanned', s.name::text FROM punctual_internal.schedule_state AS t
  JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.enabled AND t.exhausted_at IS NULL AND t.problem IS NULL AND t.fired_from = 'store'
    AND (t.next_run_at IS NULL OR t.next_slot_at IS NULL) LIMIT $1)
UNION ALL
(SELECT 'decided_in_future', s.name::text FROM punctual_internal.schedule_state AS t
  JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.exhausted_at IS NULL AND t.fired_through > coalesce($2, now()) + interval '1 minute'
    AND EXISTS (SELECT 1 FROM punctual_internal.slots AS d
      WHERE d.schedule_id = t.schedule_id AND d.slot_at > coalesce($2, now()) + interval '1 minute'
      AND d.decision = 'fired') LIMIT $1)
UNION ALL
(SELECT 'schedule_problem', (s.name || ': ' || t.problem)::text FROM punctual_internal.schedule_state AS t
  JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.problem IS NOT NULL LIMIT $1)
UNION ALL
(SELECT 'overdue', s.name::text FROM punctual_internal.schedule_state AS t
  JOIN punctual_internal.schedules AS s ON s.id = t.schedule_id
  WHERE s.deleted_at IS NULL AND t.enabled AND t.problem IS NULL
      AND t.next_run_at < coalesce($2, now()) - interval '1 minute' LIMIT $1)
UNION ALL
(SELECT 'overdue', d.job_id::text FROM punctual_internal.delayed AS d
  WHERE d.run_at < coalesce($2, now()) - interval '1 minute' LIMIT $1)
