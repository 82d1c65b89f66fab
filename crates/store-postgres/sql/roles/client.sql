-- `punctual_client` registers, sees and steers what is its own, by the public views and functions alone; it sees no
-- table. Whose a row is, they look at themselves.
GRANT USAGE ON SCHEMA punctual TO punctual_client;
GRANT SELECT ON ALL TABLES IN SCHEMA punctual TO punctual_client;
GRANT INSERT, UPDATE, DELETE ON punctual.scheduled_jobs TO punctual_client;
GRANT EXECUTE ON FUNCTION
  punctual.trigger_scheduled_job(text, json), punctual.pause_schedule(text, text, timestamptz),
  punctual.resume_schedule(text), punctual.reschedule(text, timestamptz), punctual.skip_next(text),
  punctual.add_job(text, json, text, timestamptz, integer, text, integer, text[], text, text, interval, text, text, text),
  punctual.add_jobs(punctual.job_spec[], boolean), punctual.cancel_job(uuid), punctual.retry_job(uuid)
  TO punctual_client;
