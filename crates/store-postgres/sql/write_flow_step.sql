-- Where a step is. When it began and when it ended is written once.
UPDATE punctual_internal.flow_steps
SET waits = $3, job_id = coalesce($4, job_id), started_at = coalesce(started_at, $5), ended_at = coalesce(ended_at, $6),
    outcome = $7, error_code = $8, error = $9, output = coalesce($10::text::json, output),
    items = $11, items_started = $12, items_ended = $13, items_failed = $14
WHERE flow_id = $1 AND step = $2
