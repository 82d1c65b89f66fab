-- The jobs that were made after one.
SELECT id FROM punctual_jobs WHERE id > ?1 ORDER BY id LIMIT ?2
