-- Closes runs that completed and of which nothing else is to be written: their jobs are of no schedule, no flow and no
-- serial key, and no limit counts them. Most batches are like that, and what `close_completed` asks of a batch costs each of
-- its jobs a sixth more. The answer is how many were closed: whoever named more of them undoes it, and asks the other one.
--
-- Differs from SQLite, where a second statement costs no round trip. The fence as in `take_running`; that there is no step
-- of a flow is asked once, of all ids from the first to the last ($5, $6).
WITH taken AS (
  DELETE FROM punctual_internal.running
  WHERE job_id = ANY ($2) AND node_id = $3 AND (lease_id = $4) IS TRUE
    AND serial_key IS NULL AND schedule_id IS NULL AND NOT limited
    AND NOT coalesce((SELECT job_id <= $6 FROM punctual_internal.flow_jobs WHERE job_id >= $5 ORDER BY job_id LIMIT 1),
                     false)
  RETURNING job_id, node_id, started_at
)
INSERT INTO punctual_internal.runs (job_id, node_id, started_at, finished_at, final, outcome)
SELECT job_id, node_id, started_at, coalesce($1, now()), true, 'completed' FROM taken
