-- Holds back whichever jobs of the keys may be claimed now and are not the head.
--
-- Differs from SQLite: this and `ready_serial_heads` must stay two statements. A claim does not lock the key; if one is
-- going on, this statement waits for it, and only the next one sees that the key is taken.
UPDATE punctual_internal.queue AS q SET ready = false
FROM unnest($1::text[]) AS w (key)
CROSS JOIN LATERAL (
  SELECT job_id FROM punctual_internal.queue WHERE serial_key = w.key
  ORDER BY priority DESC, position, created_at, job_id LIMIT 1
) AS head
WHERE q.serial_key = w.key AND q.ready AND q.job_id <> head.job_id
