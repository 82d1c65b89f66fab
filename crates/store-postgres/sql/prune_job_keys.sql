-- Forgets job keys whose job is forgotten; the key is then free in any case.
DELETE FROM punctual_internal.job_keys WHERE key IN (
  SELECT k.key FROM punctual_internal.job_keys AS k
  WHERE NOT EXISTS (SELECT 1 FROM punctual_internal.jobs AS j WHERE j.id = k.job_id)
  ORDER BY k.key LIMIT $1 FOR UPDATE SKIP LOCKED
)
