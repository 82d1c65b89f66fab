-- Since when a run goes on from whose end nothing else follows if it completes: no serial key to be freed, no schedule and
-- no flow to be told. No row means that its end must be judged by itself, or that the lease is lost.
--
-- Differs from PostgreSQL, which closes a whole batch of such runs in one statement, and those of schedules too: here a
-- look, an insert and a delete cost no round trip, and are cheaper than one statement with RETURNING or from a SELECT, for
-- which SQLite makes a table or a journal each time. The fence as in `take_running`.
SELECT started_at FROM punctual_running AS g
WHERE job_id = ?1 AND node_id = ?2 AND lease_id = ?3 AND serial_key IS NULL AND schedule_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM punctual_flow_jobs AS j WHERE j.job_id = g.job_id)
