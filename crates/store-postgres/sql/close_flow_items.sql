-- How items of a flow ended; answers with the jobs that were the ones their items waited for.
--
-- Differs from SQLite: a whole batch in one statement.
UPDATE punctual_internal.flow_items AS i SET outcome = w.outcome, error = w.error, output = w.output::json
FROM unnest($2::uuid[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::text[])
  AS w (job_id, step, item, outcome, error, output)
WHERE i.flow_id = $1 AND i.step = w.step AND i.item = w.item AND i.job_id = w.job_id AND i.outcome IS NULL
RETURNING i.job_id
