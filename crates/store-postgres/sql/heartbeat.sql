-- Renews a lease, and brings back what the store believes its node is running.
WITH beat AS (
  UPDATE punctual_internal.leases SET counter = counter + 1 WHERE node_id = $1 AND lease_id = $2 RETURNING counter
)
SELECT beat.counter, g.job_id, g.cancel_requested_at IS NOT NULL
FROM beat LEFT JOIN punctual_internal.running AS g ON g.lease_id = $2
ORDER BY g.job_id
