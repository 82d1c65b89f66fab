-- What runs leave behind: log lines in chunks, progress, the contents of artifacts, remembered steps, what a run used.

ALTER TABLE punctual_internal.runs ADD COLUMN usage json;

-- A chunk is a list of [microseconds, stream, text]; `sequence` is the number of its first line. A row of its own for
-- each line would cost more than the line.
CREATE TABLE punctual_internal.run_logs (
  job_id uuid NOT NULL,
  sequence bigint NOT NULL CHECK (sequence >= 1),
  lines json NOT NULL,
  PRIMARY KEY (job_id, sequence)
);

CREATE TABLE punctual_internal.run_progress (
  job_id uuid NOT NULL PRIMARY KEY,
  told_at timestamptz NOT NULL,
  percent integer NOT NULL CHECK (percent BETWEEN 0 AND 100),
  note text COLLATE "C" NOT NULL
) WITH (fillfactor = 70);

-- Differs from SQLite: stored as it is, because most files are compressed already and trying again costs time.
CREATE TABLE punctual_internal.artifact_contents (
  job_id uuid NOT NULL,
  number bigint NOT NULL,
  contents bytea NOT NULL,
  PRIMARY KEY (job_id, number)
);
ALTER TABLE punctual_internal.artifact_contents ALTER COLUMN contents SET STORAGE EXTERNAL;

-- Keyed by the first job of the chain, so that every attempt finds what an earlier one did.
CREATE TABLE punctual_internal.step_memos (
  root_job_id uuid NOT NULL,
  step text COLLATE "C" NOT NULL,
  value json NOT NULL,
  job_id uuid NOT NULL,
  remembered_at timestamptz NOT NULL,
  PRIMARY KEY (root_job_id, step)
);

-- Lets go of a record only when its run is forgotten.
CREATE FUNCTION punctual_internal.refuse_needed_record() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM punctual_internal.runs WHERE job_id = OLD.job_id)
    OR EXISTS (SELECT 1 FROM punctual_internal.running WHERE job_id = OLD.job_id) THEN
    RAISE EXCEPTION 'punctual: %', TG_ARGV[0] USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE FUNCTION punctual_internal.refuse_needed_step() RETURNS trigger LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM punctual_internal.runs WHERE job_id = OLD.root_job_id)
    OR EXISTS (SELECT 1 FROM punctual_internal.running WHERE job_id = OLD.root_job_id) THEN
    RAISE EXCEPTION 'punctual: a step is remembered once' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE TRIGGER run_logs_never_change BEFORE UPDATE ON punctual_internal.run_logs FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('a log only grows');
CREATE TRIGGER run_logs_go_with_their_run BEFORE DELETE ON punctual_internal.run_logs FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_needed_record('a log only grows');
CREATE TRIGGER run_logs_are_not_truncated BEFORE TRUNCATE ON punctual_internal.run_logs
  EXECUTE FUNCTION punctual_internal.refuse('a log only grows');
CREATE TRIGGER artifact_contents_never_change BEFORE UPDATE ON punctual_internal.artifact_contents FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('artifacts are append-only');
CREATE TRIGGER artifact_contents_go_with_their_run BEFORE DELETE ON punctual_internal.artifact_contents FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_needed_record('artifacts are append-only');
CREATE TRIGGER artifact_contents_are_not_truncated BEFORE TRUNCATE ON punctual_internal.artifact_contents
  EXECUTE FUNCTION punctual_internal.refuse('artifacts are append-only');
CREATE TRIGGER step_memos_never_change BEFORE UPDATE ON punctual_internal.step_memos FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse('a step is remembered once');
CREATE TRIGGER step_memos_go_with_their_chain BEFORE DELETE ON punctual_internal.step_memos FOR EACH ROW
  EXECUTE FUNCTION punctual_internal.refuse_needed_step();
CREATE TRIGGER step_memos_are_not_truncated BEFORE TRUNCATE ON punctual_internal.step_memos
  EXECUTE FUNCTION punctual_internal.refuse('a step is remembered once');

-- As before, and what runs leave behind goes with them.
CREATE OR REPLACE FUNCTION punctual_internal.drop_old_jobs(
  runs_before timestamptz, failed_before timestamptz, keep_last bigint, carry bigint
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
DECLARE
  jobs_part record;
  runs_part text;
  stays text := 'NOT EXISTS (SELECT 1 FROM punctual_internal.%2$I AS r WHERE r.job_id = j.id
                             AND r.finished_at < CASE r.outcome WHEN ''failed'' THEN $2 ELSE $1 END)
    OR EXISTS (SELECT 1 FROM punctual_internal.retries AS t JOIN punctual_internal.jobs AS n ON n.id = t.job_id
               WHERE t.retry_of = j.id)';
  is_latest text := '$3 > 0 AND j.schedule_id IS NOT NULL AND j.id >= coalesce(
      (SELECT n.id FROM punctual_internal.jobs AS n WHERE n.schedule_id = j.schedule_id
       ORDER BY n.id DESC LIMIT 1 OFFSET greatest($3 - 1, 0)), ''00000000-0000-0000-0000-000000000000'')';
  latest uuid[];
  record text;
  kept uuid[];
  many bigint;
  forgotten bigint := 0;
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock(7815263001);
  PERFORM pg_catalog.set_config('lock_timeout', '1s', true);
  FOR jobs_part IN
    SELECT p.name, p.from_at FROM punctual_internal.partitions AS p
    WHERE p.parent = 'jobs' AND p.to_at <= runs_before ORDER BY p.from_at
  LOOP
    SELECT p.name INTO runs_part FROM punctual_internal.partitions AS p
    WHERE p.parent = 'runs' AND p.from_at = jobs_part.from_at;
    CONTINUE WHEN runs_part IS NULL;
    -- The latest of a schedule are counted while the partition is still one of the ledger's: those that come meanwhile
    -- can only make them fewer.
    EXECUTE format('SELECT array_agg(s.id) FROM (SELECT j.id FROM punctual_internal.%1$I AS j
                    WHERE ' || is_latest || ' LIMIT $4) AS s', jobs_part.name)
      INTO latest USING runs_before, failed_before, keep_last, carry + 1;
    EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM punctual_internal.%1$I AS j
                    WHERE j.id = ANY ($4) OR ' || stays || ' LIMIT $3) AS s', jobs_part.name, runs_part)
      INTO many USING runs_before, failed_before, carry + 1, coalesce(latest, '{}');
    CONTINUE WHEN many > carry;
    BEGIN
      EXECUTE format('ALTER TABLE punctual_internal.jobs DETACH PARTITION punctual_internal.%I', jobs_part.name);
      EXECUTE format('ALTER TABLE punctual_internal.runs DETACH PARTITION punctual_internal.%I', runs_part);
      -- Asked again under the lock. A retry in the partition itself is not seen by the first half any more.
      EXECUTE format('SELECT array_agg(j.id) FROM punctual_internal.%1$I AS j WHERE j.id = ANY ($3) OR ' || stays
        || ' OR EXISTS (SELECT 1 FROM punctual_internal.retries AS t JOIN punctual_internal.%1$I AS n ON n.id = t.job_id
                        WHERE t.retry_of = j.id)', jobs_part.name, runs_part)
        INTO kept USING runs_before, failed_before, coalesce(latest, '{}');
      EXECUTE format('SELECT count(*) FROM punctual_internal.%I', jobs_part.name) INTO many;
      EXECUTE format('DELETE FROM punctual_internal.retries AS t USING punctual_internal.%I AS j
                      WHERE t.retry_of = j.id AND NOT (j.id = ANY ($1))', jobs_part.name) USING coalesce(kept, '{}');
      EXECUTE format('INSERT INTO punctual_internal.jobs SELECT * FROM punctual_internal.%I WHERE id = ANY ($1)',
                     jobs_part.name) USING kept;
      EXECUTE format('INSERT INTO punctual_internal.runs SELECT * FROM punctual_internal.%I WHERE job_id = ANY ($1)',
                     runs_part) USING kept;
      FOREACH record IN ARRAY ARRAY['artifacts', 'artifact_contents', 'run_logs', 'run_progress'] LOOP
        EXECUTE format('DELETE FROM punctual_internal.%I AS a USING punctual_internal.%I AS j
                        WHERE a.job_id = j.id AND NOT (j.id = ANY ($1))', record, jobs_part.name)
          USING coalesce(kept, '{}');
      END LOOP;
      EXECUTE format('DELETE FROM punctual_internal.step_memos AS a USING punctual_internal.%I AS j
                      WHERE a.root_job_id = j.id AND NOT (j.id = ANY ($1))', jobs_part.name) USING coalesce(kept, '{}');
      EXECUTE format('DROP TABLE punctual_internal.%I, punctual_internal.%I', jobs_part.name, runs_part);
      DELETE FROM punctual_internal.partitions AS p WHERE p.name IN (jobs_part.name, runs_part);
      forgotten := forgotten + many - coalesce(cardinality(kept), 0);
    EXCEPTION WHEN lock_not_available THEN
      RETURN forgotten;
    END;
  END LOOP;
  RETURN forgotten;
END
$$;
