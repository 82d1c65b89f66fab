-- The definitions of some jobs. The time in the id leads to one partition each.
FROM unnest($1::uuid[]) AS w (id)
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = w.id OFFSET 0) AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
