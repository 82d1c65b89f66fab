-- Writes an alert as it stands.
INSERT INTO punctual_alerts (id, rule, code, alert, closed_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (id) DO UPDATE SET alert = excluded.alert, closed_at = excluded.closed_at
