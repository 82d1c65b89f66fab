-- Deliveries.
SELECT id, channel, alert_id, message, state, created_at, next_at, tried_since, tries, attempts, ended_at
FROM punctual_deliveries
