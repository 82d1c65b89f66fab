-- Running jobs whose lease is gone, and where else they have rows. Locked, so that of several nodes that recover at
-- once each job is judged by one.
SELECT g.job_id, g.node_id, g.lease_id,
       EXISTS (SELECT 1 FROM punctual_internal.queue WHERE job_id = g.job_id)
         OR EXISTS (SELECT 1 FROM punctual_internal.delayed WHERE job_id = g.job_id),
       EXISTS (SELECT 1 FROM punctual_internal.runs WHERE job_id = g.job_id)
FROM punctual_internal.running AS g
WHERE g.lease_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.leases AS l WHERE l.lease_id = g.lease_id)
ORDER BY g.job_id
FOR UPDATE OF g SKIP LOCKED
