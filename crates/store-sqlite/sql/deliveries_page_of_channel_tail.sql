-- Those to one channel, the latest first.
WHERE channel = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
