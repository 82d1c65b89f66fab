-- Flows that have ended, out of `running`, where they stood without a node; the columns are those of `take_running`.
DELETE FROM punctual_internal.running AS g WHERE job_id = ANY ($1) AND lease_id IS NULL
RETURNING job_id, started_at, serial_key, schedule_id, cancel_code, cancel_requested_at, limited,
          (SELECT flow_id FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id),
          (SELECT step FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id),
          (SELECT item FROM punctual_internal.flow_jobs AS j WHERE j.job_id = g.job_id)
