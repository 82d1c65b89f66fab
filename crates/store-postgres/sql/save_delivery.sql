-- Writes where a delivery stands; nobody has it in hand then.
UPDATE punctual_internal.deliveries
SET state = $2, next_at = $3, tried_since = $4, tries = $5, attempts = $6::text::json, ended_at = $7, taken_by = NULL
WHERE id = $1
