-- What pg_cron is to run, one row a job, whatever columns its version has; and how it reads times. The
-- twin in SQLite does not exist: only PostgreSQL has pg_cron.
SELECT to_jsonb(job)::text AS job, current_setting('cron.timezone', true) AS timezone,
       coalesce(current_setting('cron.match_dom_and_dow', true), 'off') = 'on' AS both_days
  FROM cron.job AS job
 ORDER BY job.jobid
