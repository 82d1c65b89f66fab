-- The ids that a list of runs with one error code looks at, latest first.
SELECT job_id AS id FROM punctual_runs
WHERE error_code = ?5 AND job_id < ?1 AND job_id >= ?2
ORDER BY job_id DESC LIMIT ?3 OFFSET ?4
