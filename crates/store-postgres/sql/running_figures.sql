-- How many jobs of each queue run, among those that are counted.
SELECT l.queue, count(*)
FROM (SELECT lane_id FROM punctual_internal.running ORDER BY job_id LIMIT $1) AS g
JOIN punctual_internal.lanes AS l ON l.id = g.lane_id
GROUP BY l.queue
