-- The steps of a flow in their order; what they returned only if it is asked for ($2).
SELECT name, waits, job_id, started_at, ended_at, outcome, error_code, error, CASE WHEN $2 THEN output::text END, items,
       items_started, items_ended, items_failed
FROM punctual_internal.flow_steps WHERE flow_id = $1 ORDER BY step
