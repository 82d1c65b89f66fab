-- Nodes, latest first, with their leases if they still hold one.
SELECT n.id, n.name, n.offers, n.started_at, n.left_at, n.lost_at, l.counter,
  (SELECT count(*) FROM (SELECT 1 FROM punctual_running AS g WHERE g.lease_id = l.lease_id LIMIT ?3))
FROM punctual_nodes AS n
LEFT JOIN punctual_leases AS l ON l.node_id = n.id
WHERE n.id < ?1
ORDER BY n.id DESC
LIMIT ?2
