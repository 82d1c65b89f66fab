-- The ids that a list of all jobs looks at, latest first.
SELECT id FROM punctual_jobs WHERE id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3 OFFSET ?4
