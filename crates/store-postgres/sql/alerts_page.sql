-- Alerts, the latest first.
SELECT id, alert::text FROM punctual_internal.alerts
WHERE id < $1 AND ($2::boolean IS NULL OR (closed_at IS NULL) = $2) ORDER BY id DESC LIMIT $3
