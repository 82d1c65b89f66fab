-- The jobs of a flow that have not ended.
SELECT j.job_id FROM punctual_flow_jobs AS j
WHERE j.flow_id = ?1 AND NOT EXISTS (SELECT 1 FROM punctual_runs AS r WHERE r.job_id = j.job_id)
ORDER BY j.job_id
