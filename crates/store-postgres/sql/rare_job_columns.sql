-- What few jobs have.
  j.run_at, j.serial_key, j.job_key, j.job_key_mode, j.tags::text, j.template_id, j.grant_id, j.trace_context, j.owner,
  j.retry_of, j.root_job_id, j.chain_began_at, nullif(j.attempt, 1), nullif(j.failures, 0), nullif(j.interruptions, 0)
