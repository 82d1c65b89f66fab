-- What manifests have, in order of kind and name, after one.
SELECT kind, name, definition::text, owner, applied_at FROM punctual_internal.managed_things
WHERE (kind, name) > ($1, $2) ORDER BY kind, name LIMIT $3
