-- The ids that a list of one schedule's jobs looks at, latest first.
SELECT id FROM punctual_internal.jobs
WHERE schedule_id = $4::uuid AND id < $1 ORDER BY id DESC LIMIT $3 OFFSET $2
