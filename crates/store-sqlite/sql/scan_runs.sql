-- The ids that a list of the jobs in `runs` looks at, latest first.
SELECT job_id AS id FROM punctual_runs WHERE job_id < ?1 AND job_id >= ?2 ORDER BY job_id DESC LIMIT ?3 OFFSET ?4
