-- Locks the serial keys of running jobs before the jobs themselves, because everybody takes the keys first.
SELECT key FROM punctual_internal.serial_keys
WHERE key = ANY (ARRAY(SELECT serial_key FROM punctual_internal.running
                       WHERE job_id = ANY ($1) AND serial_key IS NOT NULL))
ORDER BY key
FOR UPDATE
