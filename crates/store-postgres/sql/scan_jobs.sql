-- The ids that a list of all jobs looks at, latest first.
SELECT id FROM punctual_internal.jobs WHERE id < $1 ORDER BY id DESC LIMIT $3 OFFSET $2
