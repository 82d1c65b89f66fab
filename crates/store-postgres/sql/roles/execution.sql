-- `punctual_execution` runs graphs: it keeps graph runs and charges for them, and writes nothing of schedules, jobs and
-- their runs; it does not even see them (A25).
GRANT USAGE ON SCHEMA punctual_internal TO punctual_execution;
GRANT SELECT ON punctual_internal.migrations, punctual_internal.partitions, punctual_internal.frozen,
  punctual_internal.grants TO punctual_execution;
-- A run is counted against its grant; who may do what is not for it to change.
GRANT UPDATE (runs, level, level_at) ON punctual_internal.grants TO punctual_execution;
GRANT SELECT, INSERT, UPDATE ON punctual_internal.graph_runs, punctual_internal.execution_requests
  TO punctual_execution;
GRANT SELECT, INSERT ON punctual_internal.billing_accounts, punctual_internal.charge_receipts TO punctual_execution;
GRANT EXECUTE ON FUNCTION punctual_internal.make_partitions(timestamptz, interval) TO punctual_execution;
