-- One job and where it is, in one statement and so in one snapshot.
FROM punctual_internal.jobs AS j
JOIN punctual_internal.lanes AS l ON l.id = j.lane_id
LEFT JOIN punctual_internal.delayed AS d ON d.job_id = j.id
LEFT JOIN punctual_internal.queue AS q ON q.job_id = j.id
LEFT JOIN punctual_internal.running AS g ON g.job_id = j.id
LEFT JOIN punctual_internal.runs AS r ON r.job_id = j.id AND r.job_id = $1
WHERE j.id = $1
