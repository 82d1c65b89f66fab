-- Forgets which steps jobs were made for that went with their partitions.
DELETE FROM punctual_internal.flow_jobs AS l
WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = l.job_id)
