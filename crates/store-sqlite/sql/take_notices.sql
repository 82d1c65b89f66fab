-- Takes what was not delivered, oldest first: what nobody has taken, what is one's own, and what a lost node had.
UPDATE punctual_outbox SET taken_by = ?1 WHERE id IN (
  SELECT id FROM punctual_outbox AS o
  WHERE delivered_at IS NULL
    AND (taken_by IS NULL OR taken_by = ?1
         OR NOT EXISTS (SELECT 1 FROM punctual_leases AS l WHERE l.lease_id = o.taken_by))
  ORDER BY id
  LIMIT ?2)
RETURNING id, created_at, kind, job_id, schedule_id, node_id, payload
