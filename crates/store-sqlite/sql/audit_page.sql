-- What was done, latest first.
SELECT id, at, actor, token_id, action, subject, request_id, before, after FROM punctual_audit_log
WHERE id < ?1 ORDER BY id DESC LIMIT ?2
