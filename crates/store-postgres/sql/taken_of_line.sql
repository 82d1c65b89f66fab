-- What of a line is being sent, and by whom, as far as that node is there.
SELECT d.id, d.taken_by FROM punctual_internal.deliveries AS d
WHERE d.channel = $1 AND d.state = 'waiting' AND d.taken_by IS NOT NULL
  AND EXISTS (SELECT 1 FROM punctual_internal.leases AS l WHERE l.lease_id = d.taken_by)
