-- The ids that a list of the jobs in `queue` looks at, latest first.
SELECT job_id AS id FROM punctual_internal.queue
WHERE job_id < $1 ORDER BY job_id DESC LIMIT $3 OFFSET $2
