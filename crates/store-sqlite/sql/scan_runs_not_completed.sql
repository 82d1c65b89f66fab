-- The ids that a list of runs with one bad outcome looks at, latest first.
SELECT job_id AS id FROM punctual_runs
WHERE outcome = ?5 AND outcome <> 'completed' AND job_id < ?1 AND job_id >= ?2
ORDER BY job_id DESC LIMIT ?3 OFFSET ?4
