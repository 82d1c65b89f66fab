-- Out of `running`, by the holder of the lease alone; a job without a row has lost its lease. With the step of a flow that
-- a job was made for.
--
-- The fence is written so that no index fits it: with one on the lease the planner reads all that the node runs, and
-- all that it ran lately, for the sake of a few jobs.
DELETE FROM punctual_internal.running AS g WHERE job_id = ANY ($1) AND node_id = $2 AND (lease_id = $3) IS TRUE
RETURNING job_id, started_at, serial_key, schedule_id, cancel_code, cancel_requested_at, limited,
          (SELECT flow_id FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id),
          (SELECT step FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id),
          (SELECT item FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id)
