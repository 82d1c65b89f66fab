-- `punctual_admin` may do everything but change the schema.
GRANT USAGE ON SCHEMA punctual_internal, punctual TO punctual_admin;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA punctual_internal TO punctual_admin;
GRANT SELECT ON ALL TABLES IN SCHEMA punctual TO punctual_admin;
GRANT INSERT, UPDATE, DELETE ON punctual.scheduled_jobs TO punctual_admin;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA punctual TO punctual_admin;
GRANT USAGE ON SEQUENCE punctual_internal.positions TO punctual_admin;
GRANT USAGE, SELECT, UPDATE ON SEQUENCE punctual_internal.waits, punctual_internal.told TO punctual_admin;
GRANT EXECUTE ON FUNCTION
  punctual_internal.make_partitions(timestamptz, interval),
  punctual_internal.drop_old_jobs(timestamptz, timestamptz, bigint, bigint),
  punctual_internal.drop_old_slots(timestamptz, bigint),
  punctual_internal.forget_graph_runs(timestamptz, bigint) TO punctual_admin;
