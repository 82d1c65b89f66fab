-- Alerts, the latest first.
SELECT id, alert FROM punctual_alerts
WHERE id < ?1 AND (?2 IS NULL OR (closed_at IS NULL) = ?2) ORDER BY id DESC LIMIT ?3
