-- The ids that a list of runs with one error code looks at, latest first.
SELECT job_id AS id FROM punctual_internal.runs
WHERE error_code = $4 AND job_id < $1 ORDER BY job_id DESC LIMIT $3 OFFSET $2
