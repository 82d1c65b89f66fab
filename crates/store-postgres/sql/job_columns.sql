-- What is read of every job, in the order the decoder expects; `rare_job_columns` follows, and then the statement that says
-- from where. What most jobs have is left out: a null costs a tenth of a value.
SELECT
  j.id, j.created_at, j.target::text, j.input::text, l.queue, nullif(j.priority, 0), nullif(j.retry::text, '{}'),
  j.timeout_us, nullif(j.trigger, 'api'), j.trigger_detail, j.schedule_id, j.slot_at,
