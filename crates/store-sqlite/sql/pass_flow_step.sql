-- The job that takes another's place is the one that its step waits for.
UPDATE punctual_flow_steps SET job_id = ?2
WHERE (flow_id, step) = (SELECT flow_id, step FROM punctual_flow_jobs WHERE job_id = ?1 AND item IS NULL) AND job_id = ?1
