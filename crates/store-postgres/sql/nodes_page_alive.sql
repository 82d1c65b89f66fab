-- The nodes that hold a lease, latest first: read from the leases, of which there are few, however many nodes there were.
-- Where counting stops is written out, as in `nodes_page`.
SELECT n.id, n.name, n.offers::text, n.started_at, n.left_at, n.lost_at, l.counter,
  (SELECT count(*) FROM (
    SELECT 1 FROM punctual_internal.running AS g WHERE g.lease_id = l.lease_id LIMIT 10001) AS c)
FROM (SELECT * FROM punctual_internal.leases WHERE node_id < $1 ORDER BY node_id DESC LIMIT $2) AS l
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.nodes WHERE id = l.node_id OFFSET 0) AS n
ORDER BY l.node_id DESC
