-- When the time of a flow is over next.
SELECT deadline FROM punctual_flow_runs
WHERE deadline IS NOT NULL AND ended_at IS NULL AND (stopping IS NULL OR stopping = 'dependency_failed')
ORDER BY deadline, job_id LIMIT 1
