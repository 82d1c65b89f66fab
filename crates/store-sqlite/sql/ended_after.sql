-- The jobs that ended after one, in the order of their ends.
SELECT job_id FROM punctual_runs WHERE (finished_at, job_id) > (?1, ?2) ORDER BY finished_at, job_id LIMIT ?3
