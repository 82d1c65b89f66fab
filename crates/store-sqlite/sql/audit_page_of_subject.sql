-- What was done to one subject, latest first.
SELECT id, at, actor, token_id, action, subject, request_id, before, after FROM punctual_audit_log
WHERE subject = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2
