-- A million of what grows, a hundred thousand of what hardly does; one job a second, its id made from its time as the
-- store makes it, and a hundred schedules that share them.
PRAGMA synchronous = OFF;
PRAGMA foreign_keys = OFF;
PRAGMA cache_size = -200000;
BEGIN;
CREATE TEMP TABLE n (i INTEGER PRIMARY KEY, id BLOB NOT NULL, at INTEGER NOT NULL);
WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 1260000)
INSERT INTO n SELECT i, unhex(printf('%012x70008000%012x', 1772323200000 + i * 1000, i)), (1772323200000 + i * 1000) * 1000
  FROM c;

INSERT INTO punctual_queues (name, created_at) SELECT 'q' || i, 0 FROM n WHERE i <= 3 OR i BETWEEN 5000 AND 15000;
INSERT INTO punctual_lanes (id, queue, job_type)
  VALUES (1, 'q1', 'task:work'), (2, 'q2', 'task:work'), (3, 'q3', 'task:work'), (4, 'q1', 'task:rare');

INSERT INTO punctual_schedules (id, name, cron, target, seed, anchor_at, created_at, updated_at, owner)
  SELECT id, 's' || i, '* * * * *', '{}', 's', at, at, at, iif(i % 50 = 0, 'ada', NULL) FROM n WHERE i <= 100000;
INSERT INTO punctual_schedule_state (schedule_id, next_slot_at, next_run_at) SELECT id, at, at FROM n WHERE i <= 100000;
INSERT INTO punctual_schedule_results (schedule_id) SELECT id FROM n WHERE i <= 100000;

INSERT INTO punctual_jobs (id, created_at, lane_id, priority, target, input, retry, trigger, schedule_id, owner, tags)
  SELECT id, at, CASE i % 10 WHEN 7 THEN 4 WHEN 8 THEN 2 WHEN 9 THEN 3 ELSE 1 END, 0, '{}', '{}', '{}', 'api',
         unhex(printf('%032x', i % 100)), iif(i % 50 = 0, 'ada', NULL), iif(i % 5 = 0, '["a"]', NULL) FROM n;
INSERT INTO punctual_runs (job_id, finished_at, final, outcome, error_code)
  SELECT id, at, 1, CASE WHEN i % 100 = 0 THEN 'failed' WHEN i % 1000 = 1 THEN 'cancelled' ELSE 'completed' END,
         CASE WHEN i % 100 = 0 THEN 'timeout' WHEN i % 1000 = 1 THEN 'cancelled' END FROM n WHERE i <= 1000000;
INSERT INTO punctual_queue (job_id, lane_id, priority, ready, position, created_at, queued_at, serial_key)
  SELECT id, CASE i % 10 WHEN 7 THEN 4 WHEN 8 THEN 2 WHEN 9 THEN 3 ELSE 1 END, 0, i % 10 > 0, i * 1048576, at, at,
         iif(i % 10 = 0, 'k' || (i % 1000), NULL) FROM n WHERE i BETWEEN 1000001 AND 1200000;
INSERT INTO punctual_delayed (job_id, run_at)
  SELECT id, iif(i % 2 = 0, at, NULL) FROM n WHERE i BETWEEN 1200001 AND 1250000;
INSERT INTO punctual_running (job_id, node_id, lease_id, claim_id, lane_id, priority, position, created_at, queued_at,
                              started_at)
  SELECT id, unhex(printf('%032x', i % 10)), unhex(printf('%032x', i % 10)), id, 1, 0, i, at, at, at
  FROM n WHERE i > 1250000;
INSERT INTO punctual_slots (schedule_id, slot_at, through, count, decided_at, late_ms, schedule_version, decision, reason)
  SELECT unhex(printf('%032x', s.i)), n.at, n.at, 1, n.at, 0, 1, 'skipped', 'paused'
  FROM n AS s CROSS JOIN n ON n.i <= 100000 WHERE s.i <= 10;

INSERT INTO punctual_audit_log (id, at, actor, action, subject)
  SELECT id, at, 'ada', 'schedule.pause', 'schedule:' || (i % 100) FROM n WHERE i <= 1000000;
INSERT INTO punctual_alerts (id, rule, code, alert, closed_at)
  SELECT id, 'r' || (i % 97), 'k' || i, '{}', iif(i % 500 = 0, NULL, at) FROM n WHERE i <= 100000;
INSERT INTO punctual_deliveries (id, channel, alert_id, occasion, message, state, created_at, next_at)
  SELECT id, 'c' || (i % 97), iif(i <= 1000, id, NULL), 'opened', '{}', iif(i % 100 = 0, 'failed', 'arrived'), at, at
  FROM n WHERE i <= 100000;
INSERT INTO punctual_outbox (id, created_at, kind, payload, delivered_at)
  SELECT id, at, 'run_failed', '{}', at FROM n WHERE i <= 100000;
INSERT INTO punctual_api_tokens (id, prefix, hash, name, owner, role, created_at)
  SELECT id, 't' || i, zeroblob(32), 't', 'ada', 'viewer', at FROM n WHERE i <= 100000;
INSERT INTO punctual_templates (id, name, job, created_at) SELECT id, 't' || i, '{}', at FROM n WHERE i <= 100000;
INSERT INTO punctual_calendars (name, rules, created_at, updated_at) SELECT 'c' || i, '{}', at, at FROM n WHERE i <= 100000;
INSERT INTO punctual_flows (name, version, definition, owner, created_at, updated_at)
  SELECT 'f' || i, 1, '{}', iif(i % 50 = 0, 'ada', NULL), at, at FROM n WHERE i <= 100000;
INSERT INTO punctual_managed_things (kind, name, owner, definition, applied_at)
  SELECT iif(i % 3 = 0, 'calendar', 'schedule'), 'm' || i, iif(i % 50 = 0, 'ada', 'ops'), '{}', at FROM n WHERE i <= 100000;
INSERT INTO punctual_flow_items (flow_id, step, item, value)
  SELECT unhex(printf('%032x', 7)), i % 2, i, '1' FROM n WHERE i <= 100000;
INSERT INTO punctual_nodes (id, name, offers, started_at) SELECT id, 'n', '[]', at FROM n WHERE i <= 100000;
-- The ten that are alive are the oldest, which is where a list that reads past the others finds them last.
INSERT INTO punctual_leases (node_id, lease_id) SELECT id, unhex(printf('%032x', i % 10)) FROM n WHERE i <= 10;
DROP TABLE n;
COMMIT;
