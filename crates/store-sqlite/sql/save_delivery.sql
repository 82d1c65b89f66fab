-- Writes where a delivery stands, and says whose it is while it is sent.
UPDATE punctual_deliveries
SET state = ?2, next_at = ?3, tried_since = ?4, tries = ?5, attempts = ?6, ended_at = ?7, taken_by = ?8
WHERE id = ?1
