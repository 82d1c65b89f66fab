-- Whose snapshots keep dead rows from being removed, furthest behind first, and how many such rows the worst of the hot
-- tables has; $1 = now, $2 = how many. It reads what the server has in memory, and no table.
-- It has no twin: SQLite tells neither who reads nor since when.
SELECT h.who, h.remedy, (extract(epoch FROM coalesce($1, now()) - h.since) * 1000000)::bigint, h.behind::bigint,
       w.name, w.dead_rows
FROM (
  -- A snapshot holds on to the rows of its own database only, unless it has none: then it is a standby's. What vacuums
  -- is passed over by others that do; a parallel worker ends with its leader. Who may not see everybody's sessions is told
  -- neither since when they are open nor what they do; nobody is told their queries, which may hold secrets.
  SELECT format('session %s (%s)', a.pid, concat_ws(', ', a.usename, nullif(a.application_name, ''), a.state)) AS who,
         format('SELECT pg_terminate_backend(%s)', a.pid) AS remedy,
         a.xact_start AS since, greatest(age(a.backend_xmin), age(a.backend_xid)) AS behind
  FROM pg_stat_activity AS a
  WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
    AND (a.datid IS NULL OR a.datname = current_database())
    AND a.pid <> pg_backend_pid() AND a.leader_pid IS NULL AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
    AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
  UNION ALL
  SELECT format('prepared transaction %L (%s)', p.gid, p.owner), format('ROLLBACK PREPARED %L', p.gid),
         p.prepared, age(p.transaction)
  FROM pg_prepared_xacts AS p WHERE p.database = current_database()
  UNION ALL
  -- Its catalog_xmin, which logical decoding has, holds on to rows of the system's own tables alone.
  SELECT format('replication slot %L', s.slot_name),
         CASE WHEN s.active THEN 'end the long query on the standby'
              ELSE format('SELECT pg_drop_replication_slot(%L), unless its standby comes back', s.slot_name) END,
         NULL, age(s.xmin)
  FROM pg_replication_slots AS s WHERE s.xmin IS NOT NULL
) AS h
CROSS JOIN (
  SELECT t.name, pg_stat_get_dead_tuples(('punctual_internal.' || t.name)::regclass) AS dead_rows
  FROM unnest(ARRAY['queue', 'running', 'delayed', 'leases', 'schedule_state', 'schedule_results', 'schedule_live'])
       AS t (name)
  ORDER BY 2 DESC LIMIT 1
) AS w
ORDER BY h.behind DESC LIMIT $2
