-- Locks serial keys, in order, so that two batches cannot deadlock. Fewer rows than keys mean that one was forgotten
-- as unused at this very moment and has to be made again.
SELECT key FROM punctual_internal.serial_keys WHERE key = ANY ($1) ORDER BY key FOR UPDATE
