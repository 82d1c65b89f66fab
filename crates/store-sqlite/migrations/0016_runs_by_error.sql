-- Runs by what went wrong, so that those with one error code are found among the many that have none or another.
CREATE INDEX punctual_runs_error ON punctual_runs (error_code, job_id) WHERE error_code IS NOT NULL;
