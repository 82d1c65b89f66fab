-- Lets the heads of keys be claimed, except where a job of the key is running. The head of a key that is held is the last
-- retry of the job that failed: see `serial_head` in the migrations, which says the same.
UPDATE punctual_internal.queue AS q SET ready = true
FROM unnest($1::text[]) AS w (key)
CROSS JOIN LATERAL (
  SELECT coalesce(
    (SELECT punctual_internal.chain_end(h.job_id) FROM punctual_internal.serial_holds AS h WHERE h.key = w.key),
    (SELECT o.job_id FROM punctual_internal.queue AS o WHERE o.serial_key = w.key
     ORDER BY o.priority DESC, o.position, o.created_at, o.job_id LIMIT 1))
) AS head (job_id)
WHERE q.job_id = head.job_id AND q.serial_key = w.key AND NOT q.ready
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.serial_key = w.key)
