-- Some jobs and where they are, in the order of their ids as given. The time in the id leads to one partition each.
FROM unnest($1::uuid[]) WITH ORDINALITY AS s (id, place)
CROSS JOIN LATERAL (SELECT * FROM punctual_internal.jobs WHERE id = s.id OFFSET 0) AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.delayed WHERE job_id = j.id OFFSET 0) AS d ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.queue WHERE job_id = j.id OFFSET 0) AS q ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.running WHERE job_id = j.id OFFSET 0) AS g ON true
LEFT JOIN LATERAL (SELECT * FROM punctual_internal.runs WHERE job_id = j.id OFFSET 0) AS r ON true
ORDER BY s.place
