-- Those in one state, the latest first.
WHERE state = $3 AND id < $1 ORDER BY id DESC LIMIT $2
