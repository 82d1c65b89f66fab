-- Where one job is: at most one of the four.
SELECT
  d.job_id, d.run_at,
  q.job_id, q.priority, q.position, q.created_at, q.queued_at, q.ready,
  g.job_id, g.node_id, g.lease_id, g.started_at, g.cancel_requested_at,
  r.job_id, r.node_id, r.started_at, r.finished_at, r.outcome, r.error_code, r.error, r.exit_code, r.output, r.log_ref,
  r.final, r.usage
FROM (SELECT 1) AS one_row
LEFT JOIN punctual_delayed AS d ON d.job_id = ?1
LEFT JOIN punctual_queue AS q ON q.job_id = ?1
LEFT JOIN punctual_running AS g ON g.job_id = ?1
LEFT JOIN punctual_runs AS r ON r.job_id = ?1
