WHERE id < $1 AND ($2::text IS NULL OR state = $2) ORDER BY id DESC LIMIT $3
