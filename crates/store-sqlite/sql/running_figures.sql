-- How many jobs of each queue run, among those that are counted.
SELECT l.queue, count(*)
FROM (SELECT lane_id FROM punctual_running LIMIT ?1) AS g
CROSS JOIN punctual_lanes AS l ON l.id = g.lane_id
GROUP BY l.queue
