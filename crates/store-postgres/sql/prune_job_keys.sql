-- Forgets job keys whose job went with its partition; the key is free in any case. Whoever is about to use one holds its
-- lock, and it is passed over.
DELETE FROM punctual_internal.job_keys WHERE key IN (
  SELECT k.key FROM punctual_internal.job_keys AS k
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = k.job_id)
  ORDER BY k.key FOR UPDATE SKIP LOCKED
)
