-- Alerts, the latest first; those that are closed, or all.
SELECT alert FROM punctual_alerts
WHERE id < ?1 AND (NOT ?2 OR closed_at IS NOT NULL) ORDER BY id DESC LIMIT ?3
