-- Forgets old alerts that are closed; ids are in order of time.
DELETE FROM punctual_internal.alerts WHERE id IN (
  SELECT id FROM punctual_internal.alerts WHERE id < $1 AND closed_at IS NOT NULL ORDER BY id LIMIT $2)
