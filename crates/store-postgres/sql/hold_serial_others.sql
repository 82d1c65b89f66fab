-- Holds back whichever jobs of the keys may be claimed now and are not the head.
--
-- Differs from SQLite: this and `ready_serial_heads` must stay two statements. A claim does not lock the key; if one is
-- going on, this statement waits for it, and only the next one sees that the key is taken.
UPDATE punctual_internal.queue AS q SET ready = false
FROM unnest($1::text[]) AS w (key)
CROSS JOIN LATERAL (
  SELECT coalesce(
    (SELECT punctual_internal.chain_end(h.job_id) FROM punctual_internal.serial_holds AS h WHERE h.key = w.key),
    (SELECT o.job_id FROM punctual_internal.queue AS o WHERE o.serial_key = w.key
     ORDER BY o.priority DESC, o.position, o.created_at, o.job_id LIMIT 1))
) AS head (job_id)
WHERE q.serial_key = w.key AND q.ready AND q.job_id <> head.job_id
