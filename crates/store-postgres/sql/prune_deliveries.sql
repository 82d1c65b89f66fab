-- Forgets old deliveries that came to their end; ids are in order of time.
DELETE FROM punctual_internal.deliveries WHERE id IN (
  SELECT id FROM punctual_internal.deliveries WHERE id < $1 AND state <> 'waiting' ORDER BY id LIMIT $2)
