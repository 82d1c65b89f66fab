-- The first job of a serial key in queue order.
SELECT job_id FROM punctual_queue WHERE serial_key = ?1
ORDER BY priority DESC, position, created_at, job_id LIMIT 1
