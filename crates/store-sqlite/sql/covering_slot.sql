-- Whether the ledger has a row for an instant: the slot itself, or, if it is one of the definition's, a range that it
-- lies in. Only what was decided ahead of its time can lie there, so that the latest rows are enough.
SELECT 1 FROM (SELECT slot_at, through FROM punctual_slots WHERE schedule_id = ?1 AND slot_at <= ?2
               ORDER BY slot_at DESC LIMIT 1000)
WHERE slot_at = ?2 OR (?3 AND through >= ?2)
LIMIT 1
