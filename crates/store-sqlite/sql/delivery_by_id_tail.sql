-- One of them.
WHERE id = ?1
