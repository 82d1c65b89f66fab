-- The ids that a list of one owner's jobs looks at, latest first.
SELECT id FROM punctual_internal.jobs WHERE owner = $4::text AND id < $1 ORDER BY id DESC LIMIT $3 OFFSET $2
