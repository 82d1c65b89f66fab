-- How an item of a flow ended, if it waited for this job.
UPDATE punctual_flow_items SET outcome = ?5, error = ?6, output = ?7
WHERE flow_id = ?1 AND step = ?2 AND item = ?3 AND job_id = ?4 AND outcome IS NULL
