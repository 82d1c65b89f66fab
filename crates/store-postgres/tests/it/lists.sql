-- A million of what grows, a hundred thousand of what hardly does, and what the tests need to speak of their rows.
SET synchronous_commit = off;
SET maintenance_work_mem = '256MB';
SET jit = off;

-- One job a second, its id made from its time as the store makes it; a hundred schedules share them.
CREATE FUNCTION at_of(i bigint) RETURNS timestamptz LANGUAGE sql STABLE AS $$
  SELECT '2026-03-01 00:00:00+00'::timestamptz + i * interval '1 second' $$;
CREATE FUNCTION id_of(i bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT (lpad(to_hex(1772323200000 + i * 1000), 12, '0') || '70008000' || lpad(to_hex(i), 12, '0'))::uuid $$;
CREATE FUNCTION busy_of(i bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
  SELECT ('00000000-0000-0000-0000-' || lpad((i % 100)::text, 12, '0'))::uuid $$;

INSERT INTO punctual_internal.queues (name, created_at)
  SELECT 'q' || i, at_of(0) FROM generate_series(1, 3) AS i;
INSERT INTO punctual_internal.queues (name, created_at)
  SELECT 'q' || i, at_of(0) FROM generate_series(5000, 15000) AS i;
INSERT INTO punctual_internal.lanes (queue, job_type)
  VALUES ('q1', 'task:work'), ('q2', 'task:work'), ('q3', 'task:work'), ('q1', 'task:rare');

INSERT INTO punctual_internal.schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at, owner)
  SELECT id_of(i), 's' || i, '* * * * *', '{}', 's', at_of(i), at_of(i), at_of(i), CASE WHEN i % 50 = 0 THEN 'ada' END
  FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.schedule_state (schedule_id, next_slot_at, next_run_at)
  SELECT id_of(i), at_of(i), at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.schedule_results (schedule_id) SELECT id_of(i) FROM generate_series(1, 100000) AS i;

INSERT INTO punctual_internal.jobs (id, created_at, lane_id, priority, target, input, retry, trigger, schedule_id, owner, tags)
  SELECT id_of(i), at_of(i), CASE i % 10 WHEN 7 THEN 4 WHEN 8 THEN 2 WHEN 9 THEN 3 ELSE 1 END, 0, '{}', '{}', '{}', 'api',
         busy_of(i), CASE WHEN i % 50 = 0 THEN 'ada' END, CASE WHEN i % 5 = 0 THEN '["a"]'::json END
  FROM generate_series(1, 1260000) AS i;
INSERT INTO punctual_internal.runs (job_id, finished_at, final, outcome, error_code)
  SELECT id_of(i), at_of(i), true,
         CASE WHEN i % 100 = 0 THEN 'failed' WHEN i % 1000 = 1 THEN 'cancelled' ELSE 'completed' END,
         CASE WHEN i % 100 = 0 THEN 'timeout' WHEN i % 1000 = 1 THEN 'cancelled' END
  FROM generate_series(1, 1000000) AS i;
INSERT INTO punctual_internal.queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key)
  SELECT id_of(i), CASE i % 10 WHEN 7 THEN 4 WHEN 8 THEN 2 WHEN 9 THEN 3 ELSE 1 END, 0, i % 10 > 0, i::bigint * 1048576, at_of(i),
         at_of(i), CASE WHEN i % 10 = 0 THEN 'k' || i % 1000 END
  FROM generate_series(1000001, 1200000) AS i;
INSERT INTO punctual_internal.delayed (job_id, run_at)
  SELECT id_of(i), CASE WHEN i % 2 = 0 THEN at_of(i) END FROM generate_series(1200001, 1250000) AS i;
INSERT INTO punctual_internal.running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at,
                                       queued_at, started_at)
  SELECT id_of(i), id_of(1 + i % 10), id_of(1 + i % 10), id_of(i), 1, 0, i, at_of(i), at_of(i), at_of(i)
  FROM generate_series(1250001, 1260000) AS i;
INSERT INTO punctual_internal.slots (schedule_id, slot_at, through, count, decided_at, late_ms, schedule_version,
                                     decision, reason)
  SELECT busy_of(i), at_of(i), at_of(i), 1, at_of(i), 0, 1, 'skipped', 'paused' FROM generate_series(1, 1000000) AS i;

INSERT INTO punctual_internal.audit_log (id, at, actor, action, subject)
  SELECT id_of(i), at_of(i), 'ada', 'schedule.pause', 'schedule:' || i % 100 FROM generate_series(1, 1000000) AS i;
INSERT INTO punctual_internal.alerts (id, rule, code, alert, closed_at)
  SELECT id_of(i), 'r' || i % 97, 'k' || i, '{}', CASE WHEN i % 500 > 0 THEN at_of(i) END
  FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.deliveries (id, channel, alert_id, occasion, message, state, created_at, next_at)
  SELECT id_of(i), 'c' || i % 97, CASE WHEN i <= 1000 THEN id_of(i) END, 'opened', '{}',
    CASE WHEN i % 100 = 0 THEN 'failed' ELSE 'arrived' END, at_of(i), at_of(i)
  FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.outbox (id, created_at, kind, payload, delivered_at)
  SELECT id_of(i), at_of(i), 'run_failed', '{}', at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.api_tokens (id, prefix, hash, name, owner, role, created_at)
  SELECT id_of(i), 't' || i, decode(repeat('00', 32), 'hex'), 't', 'ada', 'viewer', at_of(i)
  FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.templates (id, name, job, created_at)
  SELECT id_of(i), 't' || i, '{}', at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.calendars (name, rules, created_at, updated_at)
  SELECT 'c' || i, '{}', at_of(i), at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.flows (name, version, definition, owner, created_at, updated_at)
  SELECT 'f' || i, 1, '{}', CASE WHEN i % 50 = 0 THEN 'ada' END, at_of(i), at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.managed_things (kind, name, owner, definition, applied_at)
  SELECT CASE WHEN i % 3 = 0 THEN 'calendar' ELSE 'schedule' END, 'm' || i, CASE WHEN i % 50 = 0 THEN 'ada' ELSE 'ops' END,
    '{}', at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.flow_items (flow_id, step, item, value)
  SELECT id_of(7), i % 2, i, '1' FROM generate_series(1, 100000) AS i;
-- The ten that are alive are the oldest, which is where a list that reads past the others finds them last.
INSERT INTO punctual_internal.nodes (id, name, offers, started_at)
  SELECT id_of(i), 'n', '[]', at_of(i) FROM generate_series(1, 100000) AS i;
INSERT INTO punctual_internal.leases (node_id, lease_id) SELECT id_of(i), id_of(i) FROM generate_series(1, 10) AS i;
ANALYZE;
