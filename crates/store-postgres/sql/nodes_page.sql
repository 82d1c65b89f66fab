-- Nodes, latest first, with their leases if they still hold one. Where counting stops is written out, one after
-- `COUNT_MAX`: of a parameter the planner believes that it is a tenth of the table.
SELECT n.id, n.name, n.offers::text, n.started_at, n.left_at, n.lost_at, l.counter,
  (SELECT count(*) FROM (
    SELECT 1 FROM punctual_internal.running AS g WHERE g.lease_id = l.lease_id LIMIT 10001) AS c)
FROM (SELECT * FROM punctual_internal.nodes WHERE id < $1 ORDER BY id DESC LIMIT $2) AS n
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.leases WHERE node_id = n.id OFFSET 0) AS l ON true
ORDER BY n.id DESC
