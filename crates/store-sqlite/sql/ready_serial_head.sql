-- Lets the head of a key be claimed, unless a job of the key is running.
UPDATE punctual_queue SET ready = 1
WHERE job_id = ?2 AND serial_key = ?1 AND ready = 0
  AND NOT EXISTS (SELECT 1 FROM punctual_running WHERE serial_key = ?1)
