-- How long until the time of a flow is over next, in microseconds.
--
-- Differs from SQLite: a duration from the database's own now, so that no other clock matters.
SELECT (extract(epoch FROM deadline - coalesce($1, now())) * 1000000)::bigint FROM punctual_internal.flow_runs
WHERE deadline IS NOT NULL AND ended_at IS NULL AND (stopping IS NULL OR stopping = 'dependency_failed')
ORDER BY deadline, job_id LIMIT 1
