-- Runs by what went wrong, so that those with one error code are found among the many that have none or another.
CREATE INDEX runs_error ON punctual_internal.runs (error_code, job_id) WHERE error_code IS NOT NULL;
-- Flows that go on by themselves took room within limits until now, and could keep their own steps back.
UPDATE punctual_internal.running SET limited = false WHERE node_id IS NULL AND limited;
