-- The ids that a list of one owner's jobs looks at, latest first.
SELECT id FROM punctual_jobs WHERE owner = ?5 AND id < ?1 AND id >= ?2 ORDER BY id DESC LIMIT ?3 OFFSET ?4
