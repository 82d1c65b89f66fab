-- Writes down which step each new job was made for, and that its step or item waits for it.
--
-- Differs from SQLite: a whole batch in one statement.
WITH made AS MATERIALIZED (
  SELECT * FROM unnest($2::uuid[], $3::integer[], $4::integer[]) AS w (job_id, step, item)
), linked AS (
  INSERT INTO punctual_internal.flow_jobs (job_id, flow_id, step, item) SELECT job_id, $1, step, item FROM made
), items AS (
  UPDATE punctual_internal.flow_items AS i SET job_id = made.job_id FROM made
  WHERE i.flow_id = $1 AND i.step = made.step AND i.item = made.item
)
UPDATE punctual_internal.flow_steps AS s SET job_id = made.job_id FROM made
WHERE s.flow_id = $1 AND s.step = made.step AND made.item IS NULL
