-- Those to one channel and in one state, the latest first.
WHERE state = $3 AND channel = $4 AND id < $1 ORDER BY id DESC LIMIT $2
