-- Upkeep: the outbox, since when a schedule fails, who fires it, and retention by outcome and count.

-- News that somebody must be told of, written in the transaction of what it tells. `taken_by` is the lease of the node
-- that delivers it; when that lease is gone, another node may take it.
CREATE TABLE punctual_internal.outbox (
  id uuid NOT NULL PRIMARY KEY,
  created_at timestamptz NOT NULL,
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('run_failed', 'recovered', 'node_lost')),
  job_id uuid,
  schedule_id uuid,
  node_id uuid,
  payload json NOT NULL,
  taken_by uuid,
  delivered_at timestamptz
);
CREATE INDEX outbox_open ON punctual_internal.outbox (id) WHERE delivered_at IS NULL;

-- Set by a failure that was told, cleared by the next success; `recovered_from` is what the last success cleared.
ALTER TABLE punctual_internal.schedule_results
  ADD COLUMN failing_since timestamptz,
  ADD COLUMN recovered_from timestamptz,
  -- A run must be able to end while somebody has locked the schedules; `punctual doctor` looks for what has none.
  DROP CONSTRAINT schedule_results_schedule_id_fkey;

-- What is fired from the memory of the processes that declare it has a next slot here, and is never due.
ALTER TABLE punctual_internal.schedule_state
  ADD COLUMN fired_from text COLLATE "C" NOT NULL DEFAULT 'store' CHECK (fired_from IN ('store', 'memory'));
DROP INDEX punctual_internal.schedule_state_unplanned;
CREATE INDEX schedule_state_unplanned ON punctual_internal.schedule_state (schedule_id)
  WHERE enabled AND next_run_at IS NULL AND exhausted_at IS NULL AND problem IS NULL AND fired_from = 'store';

-- Below the marks a pruning may delete, and nobody else: it says that it goes on, and that it is over, in its own
-- transaction.
ALTER TABLE punctual_internal.retention ADD COLUMN pruning boolean NOT NULL DEFAULT false;

CREATE OR REPLACE FUNCTION punctual_internal.refuse_young_job() RETURNS trigger
LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM punctual_internal.retention
                 WHERE ledger = 'runs' AND pruning AND before > OLD.created_at) THEN
    RAISE EXCEPTION 'punctual: jobs are deleted by retention only' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE OR REPLACE FUNCTION punctual_internal.refuse_young_run() RETURNS trigger
LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM punctual_internal.retention
                 WHERE ledger = 'runs' AND pruning AND before > OLD.finished_at) THEN
    RAISE EXCEPTION 'punctual: runs are deleted by retention only' USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

CREATE OR REPLACE FUNCTION punctual_internal.refuse_needed_slot() RETURNS trigger
LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM punctual_internal.retention
                 WHERE ledger = 'slots' AND pruning AND before > OLD.through)
    OR NOT EXISTS (SELECT 1 FROM punctual_internal.schedule_state AS state
                   WHERE state.schedule_id = OLD.schedule_id AND state.fired_through >= OLD.through) THEN
    RAISE EXCEPTION 'punctual: slots are deleted by retention only, and only below fired_through'
      USING ERRCODE = 'restrict_violation';
  END IF;
  RETURN OLD;
END
$$;

-- Forgets the jobs of whole partitions that lie before a mark, with their runs, and says how many. What must stay is
-- carried over first: jobs that have not ended, or not before their mark, the past of chains that go on, and the latest
-- of each schedule. At most `carry` jobs are carried, because the ledgers are locked meanwhile; a partition of which
-- more must stay is left to be pruned row by row. Busy ledgers are left for the next time as well.
DROP FUNCTION punctual_internal.drop_old_jobs(timestamptz, bigint);
CREATE FUNCTION punctual_internal.drop_old_jobs(
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
      EXECUTE format('DELETE FROM punctual_internal.artifacts AS a USING punctual_internal.%I AS j
                      WHERE a.job_id = j.id AND NOT (j.id = ANY ($1))', jobs_part.name) USING coalesce(kept, '{}');
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
REVOKE ALL ON FUNCTION punctual_internal.drop_old_jobs(timestamptz, timestamptz, bigint, bigint) FROM PUBLIC;
