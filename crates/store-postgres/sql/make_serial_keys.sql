-- Makes the rows by which serial keys are locked.
INSERT INTO punctual_internal.serial_keys (key)
SELECT DISTINCT key FROM unnest($1::text[]) AS w (key)
WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.serial_keys AS k WHERE k.key = w.key)
ORDER BY key
ON CONFLICT (key) DO NOTHING
