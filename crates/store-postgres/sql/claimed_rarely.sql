-- What few jobs have comes as one column, which is null for the others: each column costs its time in every row, even if
-- there is nothing in it.
  CASE
    WHEN num_nonnulls(j.run_at, j.serial_key, j.job_key, j.tags, j.template_id, j.grant_id, j.trace_context, j.owner,
                      j.retry_of, j.root_job_id, j.chain_began_at) > 0
      OR j.attempt <> 1 OR j.failures <> 0 OR j.interruptions <> 0
    THEN ROW(
