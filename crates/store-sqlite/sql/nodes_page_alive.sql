-- The nodes that hold a lease, latest first: read from the leases, of which there are few, however many nodes there were.
SELECT n.id, n.name, n.offers, n.started_at, n.left_at, n.lost_at, l.counter,
  (SELECT count(*) FROM (SELECT 1 FROM punctual_running AS g WHERE g.lease_id = l.lease_id LIMIT ?3))
FROM punctual_leases AS l
CROSS JOIN punctual_nodes AS n ON n.id = l.node_id
WHERE l.node_id < ?1
ORDER BY l.node_id DESC
LIMIT ?2
