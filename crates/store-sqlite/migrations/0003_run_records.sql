-- What runs leave behind: log lines in chunks, progress, the contents of artifacts, remembered steps, what a run used.

ALTER TABLE punctual_runs ADD COLUMN usage TEXT CHECK (usage IS NULL OR json_valid(usage));

-- A chunk is a list of [microseconds, stream, text]; `sequence` is the number of its first line. A row of its own for
-- each line would cost more than the line.
CREATE TABLE punctual_run_logs (
  job_id BLOB NOT NULL REFERENCES punctual_jobs (id),
  sequence INTEGER NOT NULL CHECK (sequence >= 1),
  lines TEXT NOT NULL CHECK (json_valid(lines)),
  UNIQUE (job_id, sequence)
) STRICT;

CREATE TABLE punctual_run_progress (
  job_id BLOB NOT NULL PRIMARY KEY REFERENCES punctual_jobs (id),
  told_at INTEGER NOT NULL,
  percent INTEGER NOT NULL CHECK (percent BETWEEN 0 AND 100),
  note TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE punctual_artifact_contents (
  job_id BLOB NOT NULL REFERENCES punctual_jobs (id),
  number INTEGER NOT NULL,
  contents BLOB NOT NULL,
  UNIQUE (job_id, number)
) STRICT;

-- Keyed by the first job of the chain, so that every attempt finds what an earlier one did.
CREATE TABLE punctual_step_memos (
  root_job_id BLOB NOT NULL REFERENCES punctual_jobs (id),
  step TEXT NOT NULL,
  value TEXT NOT NULL CHECK (json_valid(value)),
  job_id BLOB NOT NULL,
  remembered_at INTEGER NOT NULL,
  UNIQUE (root_job_id, step)
) STRICT;

CREATE TRIGGER punctual_run_logs_never_change BEFORE UPDATE ON punctual_run_logs
BEGIN
  SELECT raise(ABORT, 'punctual: a log only grows');
END;
CREATE TRIGGER punctual_run_logs_go_with_their_run BEFORE DELETE ON punctual_run_logs
  WHEN EXISTS (SELECT 1 FROM punctual_runs WHERE job_id = OLD.job_id)
    OR EXISTS (SELECT 1 FROM punctual_running WHERE job_id = OLD.job_id)
BEGIN
  SELECT raise(ABORT, 'punctual: a log only grows');
END;
CREATE TRIGGER punctual_artifact_contents_never_change BEFORE UPDATE ON punctual_artifact_contents
BEGIN
  SELECT raise(ABORT, 'punctual: artifacts are append-only');
END;
CREATE TRIGGER punctual_artifact_contents_go_with_their_run BEFORE DELETE ON punctual_artifact_contents
  WHEN EXISTS (SELECT 1 FROM punctual_runs WHERE job_id = OLD.job_id)
    OR EXISTS (SELECT 1 FROM punctual_running WHERE job_id = OLD.job_id)
BEGIN
  SELECT raise(ABORT, 'punctual: artifacts are append-only');
END;
CREATE TRIGGER punctual_step_memos_never_change BEFORE UPDATE ON punctual_step_memos
BEGIN
  SELECT raise(ABORT, 'punctual: a step is remembered once');
END;
CREATE TRIGGER punctual_step_memos_go_with_their_chain BEFORE DELETE ON punctual_step_memos
  WHEN EXISTS (SELECT 1 FROM punctual_runs WHERE job_id = OLD.root_job_id)
    OR EXISTS (SELECT 1 FROM punctual_running WHERE job_id = OLD.root_job_id)
BEGIN
  SELECT raise(ABORT, 'punctual: a step is remembered once');
END;
