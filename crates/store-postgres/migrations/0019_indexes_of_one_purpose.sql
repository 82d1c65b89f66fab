-- What is running by its lease, the jobs of a flow, and schedules by their job type, without ids behind them. A plan that was made while the
-- table was empty found an id by such an index as cheaply as by the primary key, and went on to read the whole index
-- for each id when the table had grown.
DROP INDEX punctual_internal.running_lease;
CREATE INDEX running_lease ON punctual_internal.running (lease_id);
DROP INDEX punctual_internal.flow_jobs_flow;
CREATE INDEX flow_jobs_flow ON punctual_internal.flow_jobs (flow_id);
DROP INDEX punctual_internal.schedules_job_type;
CREATE INDEX schedules_job_type ON punctual_internal.schedules (job_type) WHERE deleted_at IS NULL;
