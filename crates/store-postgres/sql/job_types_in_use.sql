-- The job types that schedules need: one step of the index for each, whatever the number of schedules.
WITH RECURSIVE types (job_type) AS (
  (SELECT job_type FROM punctual_internal.schedules WHERE deleted_at IS NULL AND job_type IS NOT NULL
   ORDER BY job_type LIMIT 1)
  UNION ALL
  SELECT (SELECT s.job_type FROM punctual_internal.schedules AS s
          WHERE s.deleted_at IS NULL AND s.job_type > types.job_type ORDER BY s.job_type LIMIT 1)
  FROM types WHERE types.job_type IS NOT NULL
)
SELECT job_type FROM types WHERE job_type IS NOT NULL
