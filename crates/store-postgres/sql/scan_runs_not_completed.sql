-- The ids that a list of runs with one bad outcome looks at, latest first.
SELECT job_id AS id FROM punctual_internal.runs
WHERE outcome = $4::text AND outcome <> 'completed' AND job_id < $1
ORDER BY job_id DESC LIMIT $3 OFFSET $2
