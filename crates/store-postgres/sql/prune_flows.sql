-- Forgets how far flows were whose jobs went with their partitions.
WITH gone AS MATERIALIZED (
  SELECT f.job_id FROM punctual_internal.flow_runs AS f
  WHERE f.ended_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = f.job_id)
), items AS (
  DELETE FROM punctual_internal.flow_items WHERE flow_id IN (SELECT job_id FROM gone)
), steps AS (
  DELETE FROM punctual_internal.flow_steps WHERE flow_id IN (SELECT job_id FROM gone)
)
DELETE FROM punctual_internal.flow_runs WHERE job_id IN (SELECT job_id FROM gone)
