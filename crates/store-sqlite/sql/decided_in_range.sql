-- The rows of the ledger that stand where a range is to be written, and of which its plan knows nothing.
SELECT slot_at, through FROM punctual_slots
WHERE schedule_id = ?1 AND slot_at >= ?2 AND slot_at <= ?3 AND (slot_at > ?4 OR slot_at = ?2)
ORDER BY slot_at
