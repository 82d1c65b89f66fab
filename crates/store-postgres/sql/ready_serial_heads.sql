-- Lets the heads of keys be claimed, except where a job of the key is running.
UPDATE punctual_internal.queue AS q SET ready = true
FROM unnest($1::text[]) AS w (key)
CROSS JOIN LATERAL (
  SELECT job_id FROM punctual_internal.queue WHERE serial_key = w.key
  ORDER BY priority DESC, position, created_at, job_id LIMIT 1
) AS head
WHERE q.job_id = head.job_id AND NOT q.ready
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.serial_key = w.key)
