-- The chunks of a run's log from a line on: the one that holds the line, and those behind it.
SELECT sequence, lines::text FROM punctual_internal.run_logs
WHERE job_id = $1
  AND sequence >= coalesce((SELECT max(sequence) FROM punctual_internal.run_logs
                            WHERE job_id = $1 AND sequence <= $2), 1)
ORDER BY sequence
LIMIT $3
