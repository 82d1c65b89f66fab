-- The latest first.
WHERE id < $1 ORDER BY id DESC LIMIT $2
