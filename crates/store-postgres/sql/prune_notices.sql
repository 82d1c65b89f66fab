-- Forgets old notices; ids are in order of time.
DELETE FROM punctual_internal.outbox WHERE id = ANY (ARRAY(
  SELECT id FROM punctual_internal.outbox WHERE id < $1 ORDER BY id LIMIT $2))
