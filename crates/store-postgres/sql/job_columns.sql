-- What is read of a job, in the order the decoder expects; the statement that follows says from where. What most jobs
-- have is left out: a null costs a tenth of a value.
SELECT
  j.id, j.created_at, j.target::text, j.input::text, l.queue, nullif(j.priority, 0), j.run_at, j.serial_key, j.job_key,
  j.job_key_mode, j.tags::text, nullif(j.retry::text, '{}'), j.timeout_us, j.template_id, j.grant_id,
  nullif(j.trigger, 'api'), j.trigger_detail, j.trace_context, j.owner,
  j.schedule_id, j.slot_at, j.retry_of, j.root_job_id, j.chain_began_at, nullif(j.attempt, 1),
  nullif(j.failures, 0), nullif(j.interruptions, 0)
