-- Where a job is, after its own columns: at most one of the four.
  , d.job_id, d.run_at,
  q.job_id, q.priority, q.position, q.created_at, q.queued_at, q.ready,
  g.job_id, g.node_id, g.lease_id, g.started_at, g.cancel_requested_at,
  r.job_id, r.node_id, r.started_at, r.finished_at, r.outcome, r.error_code, r.error, r.exit_code, r.output::text,
  r.log_ref, r.final, r.usage::text
