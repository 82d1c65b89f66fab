-- Locks serial keys that nobody seems to use, except those that somebody has locked.
SELECT key FROM punctual_internal.serial_keys AS k
WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.queue AS q WHERE q.serial_key = k.key)
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.serial_key = k.key)
LIMIT $1
FOR UPDATE SKIP LOCKED
