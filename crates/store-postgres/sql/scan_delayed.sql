-- The ids that a list of the jobs in `delayed` looks at, latest first.
SELECT job_id AS id FROM punctual_internal.delayed
WHERE job_id < $1 ORDER BY job_id DESC LIMIT $3 OFFSET $2
