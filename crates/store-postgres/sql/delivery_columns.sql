-- Deliveries.
SELECT id, channel, alert_id, message::text, state, created_at, next_at, tried_since, tries, attempts::text, ended_at
FROM punctual_internal.deliveries
