WHERE channel = $1 AND state = 'waiting' ORDER BY id LIMIT $2
