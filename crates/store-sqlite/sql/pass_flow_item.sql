-- The same for an item of a step.
UPDATE punctual_flow_items SET job_id = ?2
WHERE (flow_id, step, item) = (SELECT flow_id, step, item FROM punctual_flow_jobs WHERE job_id = ?1) AND job_id = ?1
