WHERE id = $1
