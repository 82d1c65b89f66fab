-- What the manifest of one owner has, in order of kind and name, after one.
SELECT kind, name, definition::text, owner, applied_at FROM punctual_internal.managed_things
WHERE owner = $1 AND (kind, name) > ($2, $3) ORDER BY kind, name LIMIT $4
