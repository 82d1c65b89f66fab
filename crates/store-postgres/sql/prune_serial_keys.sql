-- Forgets locked serial keys that nobody uses. Whoever waits for the lock of one finds it gone and makes it again.
DELETE FROM punctual_internal.serial_keys AS k
WHERE k.key = ANY ($1)
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.queue AS q WHERE q.serial_key = k.key)
  AND NOT EXISTS (SELECT 1 FROM punctual_internal.running AS g WHERE g.serial_key = k.key)
