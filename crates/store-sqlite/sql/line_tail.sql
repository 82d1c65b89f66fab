-- What waits in a channel's line, in its order.
WHERE channel = ?1 AND state = 'waiting' ORDER BY id LIMIT ?2
