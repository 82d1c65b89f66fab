-- `punctual_worker` runs work: it adds to the ledgers and cannot change or delete what is in them, other than through
-- retention; and it writes nothing of the execution service (A25).
GRANT USAGE ON SCHEMA punctual_internal, punctual TO punctual_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA punctual_internal TO punctual_worker;
GRANT INSERT, UPDATE, DELETE ON
  punctual_internal.queues, punctual_internal.lanes, punctual_internal.templates, punctual_internal.schedules,
  punctual_internal.schedule_versions, punctual_internal.schedule_state, punctual_internal.schedule_results,
  punctual_internal.delayed, punctual_internal.queue, punctual_internal.serial_keys, punctual_internal.running,
  punctual_internal.retries, punctual_internal.schedule_live, punctual_internal.nodes, punctual_internal.leases,
  punctual_internal.reservations, punctual_internal.limits, punctual_internal.run_progress, punctual_internal.job_keys,
  punctual_internal.outbox, punctual_internal.backfills, punctual_internal.backfill_slots,
  punctual_internal.bulk_operations, punctual_internal.unique_keys, punctual_internal.serial_holds,
  punctual_internal.cron_presets, punctual_internal.calendars, punctual_internal.fire_cap, punctual_internal.flows,
  punctual_internal.flow_runs, punctual_internal.flow_steps, punctual_internal.flow_items, punctual_internal.flow_jobs,
  punctual_internal.schedule_requests, punctual_internal.channels, punctual_internal.rules, punctual_internal.alerts,
  punctual_internal.deliveries, punctual_internal.notify_state, punctual_internal.managed_things
  TO punctual_worker;
-- Retention deletes by row what is old enough; the triggers refuse everything else.
GRANT INSERT, DELETE ON
  punctual_internal.jobs, punctual_internal.runs, punctual_internal.slots, punctual_internal.artifacts,
  punctual_internal.artifact_contents, punctual_internal.run_logs, punctual_internal.step_memos
  TO punctual_worker;
GRANT UPDATE ON punctual_internal.retention TO punctual_worker;

GRANT USAGE ON SEQUENCE punctual_internal.positions TO punctual_worker;
GRANT USAGE, SELECT, UPDATE ON SEQUENCE punctual_internal.waits, punctual_internal.told TO punctual_worker;
GRANT EXECUTE ON FUNCTION
  punctual_internal.make_partitions(timestamptz, interval),
  punctual_internal.drop_old_jobs(timestamptz, timestamptz, bigint, bigint),
  punctual_internal.drop_old_slots(timestamptz, bigint),
  punctual_internal.forget_graph_runs(timestamptz, bigint) TO punctual_worker;
-- Who may do what through the API is nothing that a worker needs to see, and keys by which others are charged even
-- less.
REVOKE ALL ON punctual_internal.api_tokens, punctual_internal.sessions, punctual_internal.idempotency_keys,
  punctual_internal.audit_log, punctual_internal.billing_accounts, punctual_internal.graph_runs,
  punctual_internal.execution_requests, punctual_internal.charge_receipts FROM punctual_worker;
