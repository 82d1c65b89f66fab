-- Alerts that are not closed, the latest first. There are few of them, so that the rule is checked row by row.
SELECT alert::text FROM punctual_internal.alerts
WHERE closed_at IS NULL AND id < $1 AND ($2::text IS NULL OR rule = $2) ORDER BY id DESC LIMIT $3
