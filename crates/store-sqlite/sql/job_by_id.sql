-- One job's definition.
SELECT * FROM punctual_job_rows WHERE id = ?1
