-- Holds back whichever job of the key may be claimed now, unless it is the given one.
UPDATE punctual_queue SET ready = 0 WHERE serial_key = ?1 AND ready = 1 AND job_id <> ?2
