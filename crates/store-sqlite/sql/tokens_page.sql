-- API tokens, latest made first.
SELECT id, prefix, hash, name, owner, role, expires_at, created_at, revoked_at, last_used_at
FROM punctual_api_tokens WHERE id < ?1 ORDER BY id DESC LIMIT ?2
