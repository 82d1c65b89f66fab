-- Alerts of one rule, the latest first; those that are closed, or all.
SELECT alert::text FROM punctual_internal.alerts
WHERE rule = $4 AND id < $1 AND (NOT $2 OR closed_at IS NOT NULL) ORDER BY id DESC LIMIT $3
