-- Makes what is not carried over by a move but follows from what has come, and lets nodes go that left nothing behind.
-- SQLite has less to make: its limits and tags are looked up when a job is claimed.
WITH keys AS (
  -- Rows to lock; SQLite has one writer and needs none.
  INSERT INTO punctual_internal.serial_keys (key)
  SELECT serial_key FROM punctual_internal.queue WHERE serial_key IS NOT NULL
  UNION SELECT serial_key FROM punctual_internal.running WHERE serial_key IS NOT NULL
  UNION SELECT j.serial_key FROM punctual_internal.delayed AS d JOIN punctual_internal.jobs AS j ON j.id = d.job_id
        WHERE j.serial_key IS NOT NULL
), tagged AS (
  UPDATE punctual_internal.queue AS q SET tags = j.tags
  FROM punctual_internal.jobs AS j WHERE j.id = q.job_id AND j.tags IS NOT NULL
), limited AS (
  UPDATE punctual_internal.running SET limited = true WHERE EXISTS (SELECT 1 FROM punctual_internal.limits)
), gone AS (
  -- Nodes that left nothing behind; those that did are judged as lost ones.
  DELETE FROM punctual_internal.leases AS l
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.running AS r WHERE r.lease_id = l.lease_id) RETURNING node_id
), left_nodes AS (
  UPDATE punctual_internal.nodes SET left_at = $1 WHERE id IN (SELECT node_id FROM gone)
)
SELECT
  setval('punctual_internal.positions', greatest(coalesce(max(p.position) / $2, 0) + 1, 1)),
  setval(pg_get_serial_sequence('punctual_internal.lanes', 'id'),
         coalesce((SELECT max(id) FROM punctual_internal.lanes), 1),
         EXISTS (SELECT 1 FROM punctual_internal.lanes))
FROM (SELECT max(position) AS position FROM punctual_internal.queue
      UNION ALL SELECT max(position) FROM punctual_internal.running) AS p
