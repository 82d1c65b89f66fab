-- What is running by its lease, and the jobs of a flow, without the jobs' ids behind them, as on PostgreSQL. Here every
-- index ends with the primary key by itself, so that nothing else changes. Schedules by
-- their job type keep their ids: they are read in that order, and no plan here depends on how full a table is.
DROP INDEX punctual_running_lease;
CREATE INDEX punctual_running_lease ON punctual_running (lease_id);
DROP INDEX punctual_flow_jobs_flow;
CREATE INDEX punctual_flow_jobs_flow ON punctual_flow_jobs (flow_id);
