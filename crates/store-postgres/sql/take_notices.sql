-- Takes what was not delivered, oldest first: what nobody has taken, what is one's own, and what a lost node had.
--
-- Differs from SQLite: rows that another node is taking are passed over.
WITH open AS MATERIALIZED (
  SELECT o.id FROM punctual_internal.outbox AS o
  WHERE o.delivered_at IS NULL
    AND (o.taken_by IS NULL OR o.taken_by = $1
         OR NOT EXISTS (SELECT 1 FROM punctual_internal.leases AS l WHERE l.lease_id = o.taken_by))
  ORDER BY o.id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
UPDATE punctual_internal.outbox AS o SET taken_by = $1 WHERE o.id = ANY (ARRAY(SELECT id FROM open))
RETURNING o.id, o.created_at, o.kind, o.job_id, o.schedule_id, o.node_id, o.payload::text
