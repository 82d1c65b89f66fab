-- Closes a job: its one run, once and for all.
INSERT INTO punctual_runs (job_id, node_id, started_at, finished_at, outcome, error_code, error, exit_code, output,
                           log_ref, final, usage)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
