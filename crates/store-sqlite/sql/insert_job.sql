-- Inserts a job, once and for all.
INSERT INTO punctual_jobs (id, created_at, lane_id, priority, target, input, run_at, serial_key, tags, retry, timeout_us,
                           template_id, grant_id, trigger, trigger_detail, trace_context, schedule_id, slot_at, retry_of,
                           root_job_id, chain_began_at, attempt, failures, interruptions, job_key, job_key_mode,
                           owner)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
        ?25, ?26, ?27)
