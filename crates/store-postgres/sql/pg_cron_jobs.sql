-- What pg_cron is to run, one row a job, whatever columns its version has; and the zone in which it reads times. The
-- twin in SQLite does not exist: only PostgreSQL has pg_cron.
SELECT to_jsonb(job)::text AS job, current_setting('cron.timezone', true) AS timezone
  FROM cron.job AS job
 ORDER BY job.jobid
