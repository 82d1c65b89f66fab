-- The jobs that take others' places are the ones that their steps wait for.
--
-- Differs from SQLite: a whole batch in one statement.
WITH passed AS MATERIALIZED (
  SELECT w.old, w.new, j.flow_id, j.step, j.item FROM unnest($1::uuid[], $2::uuid[]) AS w (old, new)
  JOIN punctual_internal.flow_jobs AS j ON j.job_id = w.old
), linked AS (
  INSERT INTO punctual_internal.flow_jobs (job_id, flow_id, step, item) SELECT new, flow_id, step, item FROM passed
), items AS (
  UPDATE punctual_internal.flow_items AS i SET job_id = passed.new FROM passed
  WHERE i.flow_id = passed.flow_id AND i.step = passed.step AND i.item = passed.item AND i.job_id = passed.old
)
UPDATE punctual_internal.flow_steps AS s SET job_id = passed.new FROM passed
WHERE s.flow_id = passed.flow_id AND s.step = passed.step AND passed.item IS NULL AND s.job_id = passed.old
