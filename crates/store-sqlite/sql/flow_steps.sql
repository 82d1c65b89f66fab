-- The steps of a flow in their order; what they returned only if it is asked for (?2).
SELECT name, waits, job_id, started_at, ended_at, outcome, error_code, error, iif(?2, output, NULL), items,
       items_started, items_ended, items_failed
FROM punctual_flow_steps WHERE flow_id = ?1 ORDER BY step
