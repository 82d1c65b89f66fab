-- One session with the token it was opened with.
SELECT s.expires_at, t.id, t.prefix, t.hash, t.name, t.owner, t.role, t.expires_at, t.created_at, t.revoked_at,
  t.last_used_at
FROM punctual_internal.sessions AS s
JOIN punctual_internal.api_tokens AS t ON t.id = s.token_id
WHERE s.hash = $1
