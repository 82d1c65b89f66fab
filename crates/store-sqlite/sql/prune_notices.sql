-- Forgets old notices; ids are in order of time.
DELETE FROM punctual_outbox WHERE id IN (SELECT id FROM punctual_outbox WHERE id < ?1 ORDER BY id LIMIT ?2)
